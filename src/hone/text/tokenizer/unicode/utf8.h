// UTF-8 for the tokenizer: iterating over valid text, and repairing invalid bytes by a fixed rule.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "hone/base/strings/utf8.h"

namespace hone::text::tokenizer {

// Length of the character whose first byte is `lead`, in valid UTF-8.
inline int utf8_length(unsigned char lead) { return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4; }

// The code point at `at`; the text must be valid UTF-8.
inline uint32_t code_point_at(const char* at) {
  auto byte = [at](int i) { return static_cast<uint32_t>(static_cast<unsigned char>(at[i])); };
  uint32_t lead = byte(0);
  if (lead < 0x80) return lead;
  if (lead < 0xE0) return (lead & 0x1F) << 6 | (byte(1) & 0x3F);
  if (lead < 0xF0) return (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  return (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
}

// Calls visit(code_point, offset, length) for every character of valid UTF-8.
template <class Visit>
void for_each_char(std::string_view text, Visit&& visit) {
  for (size_t i = 0; i < text.size();) {
    int length = utf8_length(static_cast<unsigned char>(text[i]));
    visit(code_point_at(text.data() + i), i, static_cast<size_t>(length));
    i += static_cast<size_t>(length);
  }
}

bool is_valid_utf8(std::string_view text);
bool is_ascii(std::string_view text);

// Number of bytes at the end of `text` that start a character but do not complete it.
size_t unfinished_tail(std::string_view text);

// Appends `bytes`, replacing each maximal invalid part by U+FFFD (the rule of Unicode, Python and Rust).
void append_lossy(std::string& out, std::string_view bytes);

// `text` itself when valid, otherwise its repaired copy in `storage`.
std::string_view valid_utf8(std::string_view text, std::string& storage);

}  // namespace hone::text::tokenizer
