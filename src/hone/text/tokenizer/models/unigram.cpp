#include <algorithm>
#include <limits>

#include "hone/text/tokenizer/models/model.h"
#include "hone/text/tokenizer/models/trie.h"
#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::text::tokenizer {
namespace {

Trie trie_of(const Vocabulary& vocabulary) {
  std::vector<std::pair<std::string_view, TokenId>> words;
  for (size_t id = 0; id < vocabulary.id_limit(); ++id) {
    auto token = vocabulary.token(static_cast<TokenId>(id));
    if (!token.empty()) words.push_back({token, *vocabulary.find(token)});
  }
  return Trie(std::move(words));
}

// Finds the segmentation of a piece with the highest total score.
class Unigram : public Model {
 public:
  Unigram(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options)
      : Model(std::move(vocabulary)), scores_(std::move(scores)), options_(options), trie_(trie_of(vocabulary_)) {
    constexpr double kUnknownPenalty = 10.0;
    double lowest = std::numeric_limits<double>::infinity();
    for (double score : scores_) lowest = std::min(lowest, score);
    unknown_score_ = lowest - kUnknownPenalty;
    if (options_.byte_fallback) fallback_ = byte_tokens();
  }

  void encode_pre_token(std::string_view piece, std::vector<TokenId>& out) const override {
    thread_local std::vector<Node> best;
    find_best_path(piece, best);
    size_t first = out.size(), unknown_end = 0;
    for (size_t end = piece.size(); end > 0;) {
      auto& node = best[end];
      bool unknown = options_.unk_id && node.id == *options_.unk_id;
      if (unknown) {  // adjacent unknown characters are merged
        if (!unknown_end) unknown_end = end;
      } else {
        if (unknown_end) append_reversed(piece.substr(end, unknown_end - end), out);
        unknown_end = 0;
        append_reversed(piece.substr(node.begin, end - node.begin), out);
      }
      end = node.begin;
    }
    if (unknown_end) append_reversed(piece.substr(0, unknown_end), out);
    std::reverse(out.begin() + static_cast<ptrdiff_t>(first), out.end());
  }

 private:
  struct Node {
    size_t begin;
    TokenId id;
    double score;
    bool reached;
  };

  void find_best_path(std::string_view piece, std::vector<Node>& best) const {
    best.assign(piece.size() + 1, Node{0, 0, 0.0, false});
    for (size_t begin = 0; begin < piece.size();) {
      auto char_length = static_cast<size_t>(utf8_length(static_cast<unsigned char>(piece[begin])));
      double so_far = best[begin].score;
      bool single = false;
      auto consider = [&](size_t end, TokenId id, double score) {
        auto& node = best[end];
        if (!node.reached || score > node.score) node = {begin, id, score, true};
      };
      trie_.prefixes(piece.substr(begin), [&](size_t length, TokenId id) {
        consider(begin + length, id, scores_[static_cast<size_t>(id)] + so_far);
        single = single || length == char_length;
      });
      if (!single) {
        if (!options_.unk_id) fail_without_unknown(piece.substr(begin, char_length));
        consider(begin + char_length, *options_.unk_id, unknown_score_ + so_far);
      }
      begin += char_length;
    }
  }

  void append_reversed(std::string_view text, std::vector<TokenId>& out) const {
    if (auto id = vocabulary_.find(text)) {
      out.push_back(*id);
      return;
    }
    size_t before = out.size();
    if (append_byte_tokens(fallback_, text, out)) {
      std::reverse(out.begin() + static_cast<ptrdiff_t>(before), out.end());
      return;
    }
    if (!options_.unk_id) fail_without_unknown(text);
    out.push_back(*options_.unk_id);
  }

  std::vector<double> scores_;
  UnigramOptions options_;
  Trie trie_;
  double unknown_score_ = 0;
  std::vector<TokenId> fallback_;
};

}  // namespace

std::unique_ptr<Model> make_unigram(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options) {
  return std::make_unique<Unigram>(std::move(vocabulary), std::move(scores), options);
}

}  // namespace hone::text::tokenizer
