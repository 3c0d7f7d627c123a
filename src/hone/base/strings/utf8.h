// Characters in UTF-8: writing, counting, and finding where they begin. Assumes nothing about the text's validity.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace hone {

inline bool is_continuation_byte(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// How many characters begin in the text.
size_t count_characters(std::string_view text);

// The beginning of the character that byte `at` is of; the end of the text for its size. A text cut there has no partial
// character.
size_t character_begin(std::string_view text, size_t at);

void append_utf8(std::string& out, uint32_t code_point);

}  // namespace hone
