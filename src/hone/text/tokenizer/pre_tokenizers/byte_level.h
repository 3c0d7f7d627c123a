// The byte-level alphabet: a printable character for each byte, as GPT-2 introduced it.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace hone::text::tokenizer {

// The code point that represents each byte.
const std::array<uint16_t, 256>& byte_level_alphabet();
void append_byte_level(std::string& out, std::string_view bytes);
// The bytes a byte-level token represents; false (and `out` untouched) when a character is not of the alphabet.
bool append_from_byte_level(std::string& out, std::string_view token);

}  // namespace hone::text::tokenizer
