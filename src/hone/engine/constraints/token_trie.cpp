#include "hone/engine/constraints/token_trie.h"

#include <algorithm>
#include <charconv>

#include "hone/text/tokenizer/byte_level.h"

namespace hone::engine {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // SentencePiece's ▁

// A SentencePiece token: ▁ is a space, <0x0A> a byte.
std::string piece_bytes(const std::string& token) {
  unsigned value = 0;
  if (token.size() == 6 && token.starts_with("<0x") && token.ends_with('>') &&
      std::from_chars(token.data() + 3, token.data() + 5, value, 16).ptr == token.data() + 5)
    return {static_cast<char>(value)};
  std::string bytes;
  for (size_t i = 0; i < token.size();) {
    bool space = std::string_view(token).substr(i).starts_with(kSpaceMark);
    bytes += space ? ' ' : token[i];
    i += space ? kSpaceMark.size() : 1;
  }
  return bytes;
}

std::string token_bytes(const text::Tokenizer& tokenizer, text::TokenId id, bool pieces) {
  if (tokenizer.is_special(id)) return {};
  auto token = tokenizer.token_of(id);
  if (pieces) return piece_bytes(token);
  std::string bytes;
  return text::tokenizer::append_from_byte_level(bytes, token) ? bytes : token;
}

}  // namespace

TokenTrie::TokenTrie(const text::Tokenizer& tokenizer, std::vector<text::TokenId> end_tokens)
    : bytes_(tokenizer.size()), end_tokens_(std::move(end_tokens)) {
  bool pieces = tokenizer.id_of(kSpaceMark) || tokenizer.id_of("<0x0A>");
  for (size_t id = 0; id < bytes_.size(); ++id) {
    auto token = static_cast<text::TokenId>(id);
    bytes_[id] = token_bytes(tokenizer, token, pieces);
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
    auto place = nodes_.size();
    nodes_.push_back({static_cast<uint8_t>(byte), 0, static_cast<int32_t>(first), static_cast<int32_t>(ending)});
    build(first, end, depth + 1);
    nodes_[place].after = static_cast<int32_t>(nodes_.size());
    first = end;
  }
}

}  // namespace hone::engine
