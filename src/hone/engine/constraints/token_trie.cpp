#include "hone/engine/constraints/token_trie.h"

#include <algorithm>

#include "hone/text/token_bytes.h"

namespace hone::engine {

TokenTrie::TokenTrie(const text::Tokenizer& tokenizer, std::vector<text::TokenId> end_tokens)
    : bytes_(tokenizer.size()), end_tokens_(std::move(end_tokens)) {
  text::TokenBytes bytes(tokenizer);
  for (size_t id = 0; id < bytes_.size(); ++id) {
    auto token = static_cast<text::TokenId>(id);
    if (!tokenizer.is_special(token)) bytes_[id] = bytes.of(token);
    if (!bytes_[id].empty() && !std::ranges::count(end_tokens_, token)) tokens_.push_back(token);
  }
  std::ranges::sort(tokens_, {}, [&](text::TokenId token) -> const std::string& { return bytes_[static_cast<size_t>(token)]; });
  build(0, tokens_.size(), 0);
}

// Children of the tokens [first, last), which share their first `depth` bytes. std::string compares bytes as unsigned.
void TokenTrie::build(size_t first, size_t last, size_t depth) {
  while (first < last && bytes_of(tokens_[first]).size() == depth) ++first;
  while (first < last) {
    auto byte = bytes_of(tokens_[first])[depth];
    size_t end = first, ending = first;
    while (end < last && bytes_of(tokens_[end])[depth] == byte) ++end;
    while (ending < end && bytes_of(tokens_[ending]).size() == depth + 1) ++ending;
    auto index = nodes_.size();
    nodes_.push_back({static_cast<uint8_t>(byte), 0, static_cast<int32_t>(first), static_cast<int32_t>(ending)});
    build(first, end, depth + 1);
    nodes_[index].after = static_cast<int32_t>(nodes_.size());
    first = end;
  }
}

}  // namespace hone::engine
