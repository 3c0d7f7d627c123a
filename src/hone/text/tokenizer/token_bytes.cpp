#include "hone/text/token_bytes.h"

#include <charconv>

#include "hone/text/tokenizer/pre_tokenizers/byte_level.h"

namespace hone::text {
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

}  // namespace

TokenBytes::TokenBytes(const Tokenizer& tokenizer)
    : tokenizer_(tokenizer), pieces_(tokenizer.id_of(kSpaceMark) || tokenizer.id_of("<0x0A>")) {}

std::string TokenBytes::of(TokenId id) const {
  auto token = tokenizer_.token_of(id);
  if (tokenizer_.is_special(id)) return token;
  if (pieces_) return piece_bytes(token);
  std::string bytes;
  return tokenizer::append_from_byte_level(bytes, token) ? bytes : token;
}

}  // namespace hone::text
