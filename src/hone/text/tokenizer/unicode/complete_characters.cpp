#include <algorithm>

#include "hone/text/tokenizer/models/bpe.h"
#include "hone/text/tokenizer/pre_tokenizers/byte_level.h"
#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::text::tokenizer {
namespace {

// The properties of a token's bytes that affect merges.
struct Edges {
  unsigned char first = 0, second = 0, last = 0;
  bool single = true;
  bool starts_inside = false, ends_inside = false;  // of a character
};

// Risky boundaries, by the byte before and the two bytes after.
size_t risk_index(unsigned char before, unsigned char first, unsigned char second) {
  return static_cast<size_t>(before) << 16 | static_cast<size_t>(first) << 8 | second;
}

// True when every merge comes after all merges that build its parts.
bool ranks_grow(const Vocabulary& vocabulary, const MergeTable& merges) {
  std::vector<int64_t> latest(vocabulary.id_limit(), -1);
  merges.for_each([&](TokenId, TokenId, Merge merge) {
    auto& rank = latest[static_cast<size_t>(merge.result)];
    rank = std::max(rank, static_cast<int64_t>(merge.rank));
  });
  bool grow = true;
  merges.for_each([&](TokenId left, TokenId right, Merge merge) {
    auto rank = static_cast<int64_t>(merge.rank);
    grow = grow && rank > latest[static_cast<size_t>(left)] && rank > latest[static_cast<size_t>(right)];
  });
  return grow;
}

}  // namespace

void WholeCharacters::prepare(const Vocabulary& vocabulary, const MergeTable& merges, const std::array<TokenId, 256>& byte_ids) {
  if (!ranks_grow(vocabulary, merges)) return;
  find_risks(vocabulary, merges);
  tokens_.assign(0x10000, -1);
  std::string bytes;
  std::vector<TokenId> symbols;
  for (size_t id = 0; id < vocabulary.id_limit(); ++id) {
    auto token = vocabulary.token(static_cast<TokenId>(id));
    bytes.clear();
    // Written in the byte-level alphabet, a character of two or three bytes takes at most six.
    if (token.size() > 6 || !append_from_byte_level(bytes, token) || bytes.size() < 2 || bytes.size() > 3) continue;
    bool one = is_valid_utf8(bytes) && static_cast<size_t>(utf8_length(static_cast<unsigned char>(bytes[0]))) == bytes.size();
    if (!one) continue;
    symbols.clear();
    for (char c : bytes) symbols.push_back(byte_ids[static_cast<unsigned char>(c)]);
    merge_symbols(merges, symbols);
    if (symbols.size() == 1) tokens_[code_point_at(bytes.data())] = symbols[0];
  }
}

void WholeCharacters::find_risks(const Vocabulary& vocabulary, const MergeTable& merges) {
  std::vector<Edges> edges(vocabulary.id_limit());
  std::string bytes;
  for (size_t id = 0; id < edges.size(); ++id) {
    bytes.clear();
    auto token = vocabulary.token(static_cast<TokenId>(id));
    if (token.empty() || !append_from_byte_level(bytes, token)) continue;
    auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
    bool single = bytes.size() == 1;
    edges[id] = {byte(0), single ? byte(0) : byte(1),    byte(bytes.size() - 1),
                 single,  is_continuation_byte(byte(0)), unfinished_tail(bytes) > 0};
  }
  risks_.assign(0x1000000, false);
  merges.for_each([&](TokenId left, TokenId right, Merge) {
    auto &before = edges[static_cast<size_t>(left)], &after = edges[static_cast<size_t>(right)];
    bool between_characters = !is_continuation_byte(after.first);
    if (!between_characters || (!before.starts_inside && !after.ends_inside)) return;
    size_t base = risk_index(before.last, after.first, 0);
    if (!after.single)
      risks_[base | after.second] = true;
    else
      std::fill_n(risks_.begin() + static_cast<ptrdiff_t>(base), 256, true);  // whatever byte follows
  });
}

bool WholeCharacters::start(std::string_view word, const std::array<TokenId, 256>& byte_ids,
                            std::vector<TokenId>& symbols) const {
  if (tokens_.empty()) return false;
  unsigned char previous = 0;
  for (size_t at = 0; at < word.size();) {
    auto lead = static_cast<unsigned char>(word[at]);
    auto length = static_cast<size_t>(utf8_length(lead));
    auto second = static_cast<unsigned char>(at + 1 < word.size() ? word[at + 1] : 0);
    if (at > 0 && risks_[risk_index(previous, lead, second)]) {
      symbols.clear();
      return false;
    }
    TokenId whole = length == 2 || length == 3 ? tokens_[code_point_at(word.data() + at)] : -1;
    if (whole >= 0)
      symbols.push_back(whole);
    else
      for (size_t i = 0; i < length; ++i) symbols.push_back(byte_ids[static_cast<unsigned char>(word[at + i])]);
    at += length;
    previous = static_cast<unsigned char>(word[at - 1]);
  }
  return true;
}

}  // namespace hone::text::tokenizer
