#include "hone/base/strings/utf8.h"

#include <algorithm>

namespace hone {

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char byte) { return !is_continuation_byte(byte); }));
}

size_t character_begin(std::string_view text, size_t at) {
  while (at > 0 && at < text.size() && is_continuation_byte(text[at])) --at;
  return at;
}

void append_utf8(std::string& out, uint32_t code_point) {
  auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6), put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12), put(0x80 | (code_point >> 6 & 0x3F)), put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18), put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F)), put(0x80 | (code_point & 0x3F));
  }
}

}  // namespace hone
