// Where a number literal ends, as jinja2 reads them: Python's, with underscores between digits.
#pragma once
#include <cstddef>
#include <string_view>

namespace hone::text::jinja {

// The length of the literal at `at`; 0: there is none.
size_t real_literal_length(std::string_view source, size_t at);
size_t integer_literal_length(std::string_view source, size_t at);

}  // namespace hone::text::jinja
