// Text on a page as wide as the terminal.
#pragma once
#include <string>
#include <string_view>

namespace hone::cli {

// The terminal's width, within limits.
size_t page_width();
// `text` broken into lines of at most `width` cells, the later ones indented.
std::string wrap(std::string_view text, size_t width, size_t indent);
// `text` followed by spaces up to `cells`.
std::string padded(std::string_view text, size_t cells);

}  // namespace hone::cli
