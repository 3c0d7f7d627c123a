#include "hone/text/tokenizer/pipeline.h"

#include <atomic>

#include "hone/text/tokenizer/models/word_cache.h"
#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::text {

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 3 + 8);
  encode_to(text, options, ids);
  return ids;
}

}  // namespace hone::text

namespace hone::text::tokenizer {
namespace {

uint64_t next_number() {
  static std::atomic<uint64_t> counter{0};
  return ++counter;
}

}  // namespace

Pipeline::Pipeline(PipelineStages parts) : parts_(std::move(parts)), number_(next_number()) {
  for (auto& token : parts_.added_tokens) add_token(std::move(token));
  parts_.added_tokens.clear();
  auto* bpe = dynamic_cast<Bpe*>(parts_.model.get());
  if (parts_.byte_level_splitter && bpe && bpe->is_byte_level()) {
    byte_model_ = bpe;
    byte_model_->prepare_bytes();
  }
}

void Pipeline::finish() { added_.finish(parts_.normalizer.get()); }

void Pipeline::encode_to(std::string_view input, const EncodeOptions& options, std::vector<TokenId>& out) const {
  std::string repaired;
  std::string_view text = valid_utf8(input, repaired);
  size_t start = out.size();
  std::vector<AddedTokenSpan> segments;
  added_.find_raw(text, options.guard_special_tokens, segments);
  for (auto& segment : segments) {
    if (segment.id >= 0)
      out.push_back(segment.id);
    else
      encode_raw_segment(text.substr(segment.begin, segment.end - segment.begin), segment.begin == 0,
                         options.guard_special_tokens, out);
  }
  parts_.post_processor.apply(out, start, options.add_special_tokens);
}

void Pipeline::encode_raw_segment(std::string_view text, bool first, bool guard, std::vector<TokenId>& out) const {
  std::string changed;
  if (parts_.normalizer && !parts_.normalizer->leaves(text)) {
    changed = text;
    parts_.normalizer->apply(changed);
    text = changed;
  }
  if (!added_.any_normalized()) return encode_plain(text, first, out);
  std::vector<AddedTokenSpan> segments;
  added_.find_normalized(text, guard, segments);
  for (auto& segment : segments) {
    if (segment.id >= 0)
      out.push_back(segment.id);
    else
      encode_plain(text.substr(segment.begin, segment.end - segment.begin), first && segment.begin == 0, out);
  }
}

void Pipeline::encode_plain(std::string_view text, bool first, std::vector<TokenId>& out) const {
  if (text.empty()) return;
  if (byte_model_) return encode_bytes(text, out);
  if (!parts_.pre_tokenizer) return parts_.model->encode_pre_token(text, out);
  std::vector<PreToken> pieces{{std::string(text), first}};
  parts_.pre_tokenizer->apply(pieces);
  for (auto& piece : pieces)
    if (!piece.text.empty()) parts_.model->encode_pre_token(piece.text, out);
}

void Pipeline::encode_bytes(std::string_view text, std::vector<TokenId>& out) const {
  auto& cache = WordCache::of_thread(number_);
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    const char* next = parts_.byte_level_splitter(at, end);
    std::string_view word(at, static_cast<size_t>(next - at));
    at = next;
    if (word.size() > WordCache::kMaxWord) {
      byte_model_->encode_bytes(word, out);
      continue;
    }
    auto key = WordCache::key_of(word);
    auto& entry = cache.place(key);
    if (entry.key == key) {
      out.insert(out.end(), entry.ids, entry.ids + entry.count);
      continue;
    }
    size_t before = out.size();
    byte_model_->encode_bytes(word, out);
    WordCache::store(entry, key, std::span(out).subspan(before));
  }
}

std::string Pipeline::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  Tokens tokens;
  tokens.reserve(ids.size());
  for (TokenId id : ids) {
    auto* added = added_.decoded(id);
    if (!added && !parts_.model->vocabulary().contains(id)) continue;
    std::string token = added ? *added : std::string(parts_.model->vocabulary().token(id));
    if (!skip_special_tokens || !added_.is_special_text(token)) tokens.push_back(std::move(token));
  }
  if (tokens.empty()) return {};
  if (parts_.decoder) parts_.decoder->apply(tokens);
  std::string text;
  for (auto& token : tokens) {
    if (!parts_.decoder && !text.empty()) text += ' ';
    text += token;
  }
  return text;
}

std::optional<TokenId> Pipeline::id_of(std::string_view token) const {
  auto added = added_.find_id(token);
  return added ? added : parts_.model->vocabulary().find(token);
}

std::string Pipeline::token_of(TokenId id) const {
  auto* added = added_.find_token(id);
  return added ? added->content : std::string(parts_.model->vocabulary().token(id));
}

bool Pipeline::is_special(TokenId id) const {
  auto* added = added_.find_token(id);
  return added && added->special;
}

size_t Pipeline::size() const { return std::max(parts_.model->vocabulary().id_limit(), static_cast<size_t>(added_.id_limit())); }

}  // namespace hone::text::tokenizer
