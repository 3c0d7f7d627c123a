// Unicode properties as Python's str has them, over UTF-8 bytes. An invalid byte counts as one character.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace hone::text::jinja {

int64_t count_code_points(std::string_view text);
// Decodes the character at `offset` and moves past it.
char32_t next_code_point(std::string_view text, size_t& offset);
std::u32string decode(std::string_view text);
std::string encode(std::u32string_view points);
// Byte offset of the character with index `index` (0 <= index <= length).
size_t byte_offset(std::string_view text, int64_t index);

bool is_space(char32_t point);
bool is_alpha(char32_t point);
bool is_digit(char32_t point);
bool is_decimal(char32_t point);
bool is_numeric(char32_t point);
bool is_word(char32_t point);  // \w of a regular expression
bool is_upper(char32_t point);
bool is_lower(char32_t point);
bool is_printable(char32_t point);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string title_case(std::string_view text);
std::string swap_case(std::string_view text);

enum class Side { left = 1, right = 2, both = 3 };
std::string_view strip_space(std::string_view text, Side side);
std::string_view strip_characters(std::string_view text, std::string_view characters, Side side);

}  // namespace hone::text::jinja
