#include "hone/text/tokenizer/pre_tokenizers/byte_level.h"

#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::text::tokenizer {
namespace {

struct Tables {
  std::array<uint16_t, 256> alphabet{};
  std::array<int16_t, 512> byte_of{};

  Tables() {
    byte_of.fill(-1);
    uint16_t next = 256;
    for (unsigned byte = 0; byte < 256; ++byte) {
      bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      alphabet[byte] = printable ? static_cast<uint16_t>(byte) : next++;
      byte_of[alphabet[byte]] = static_cast<int16_t>(byte);
    }
  }
};

const Tables& tables() {
  static const Tables instance;
  return instance;
}

}  // namespace

const std::array<uint16_t, 256>& byte_level_alphabet() { return tables().alphabet; }

void append_byte_level(std::string& out, std::string_view bytes) {
  auto& alphabet = byte_level_alphabet();
  for (char c : bytes) append_utf8(out, alphabet[static_cast<unsigned char>(c)]);
}

bool append_from_byte_level(std::string& out, std::string_view token) {
  auto& byte_of = tables().byte_of;
  size_t before = out.size();
  for (size_t i = 0; i < token.size();) {
    auto lead = static_cast<unsigned char>(token[i]);
    uint32_t c = code_point_at(token.data() + i);
    if (c >= byte_of.size() || byte_of[c] < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(byte_of[c]));
    i += static_cast<size_t>(utf8_length(lead));
  }
  return true;
}

}  // namespace hone::text::tokenizer
