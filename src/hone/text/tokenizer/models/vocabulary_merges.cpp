#include "hone/text/tokenizer/models/vocabulary_merges.h"

#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::text::tokenizer {

MergeTable merges_by_splits(const Vocabulary& vocabulary, TokenId first_id, MergeRank kind) {
  MergeTable merges;
  merges.reserve(vocabulary.count() * 2);
  uint32_t rank = 0;
  for (auto id = first_id; id < static_cast<TokenId>(vocabulary.id_limit()); ++id) {
    auto token = vocabulary.token(id);
    if (token.empty() || vocabulary.find(token) != id) continue;
    for (size_t cut = static_cast<size_t>(utf8_length(static_cast<unsigned char>(token[0]))); cut < token.size();
         cut += static_cast<size_t>(utf8_length(static_cast<unsigned char>(token[cut])))) {
      auto left = vocabulary.find(token.substr(0, cut));
      auto right = left ? vocabulary.find(token.substr(cut)) : std::nullopt;
      if (!left || !right || *left < first_id || *right < first_id) continue;
      merges.add(*left, *right, {kind == MergeRank::per_token ? static_cast<uint32_t>(id) : rank++, id});
    }
  }
  return merges;
}

}  // namespace hone::text::tokenizer
