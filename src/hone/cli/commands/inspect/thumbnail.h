// A small picture in the terminal: as one where the terminal shows those (kitty's and iTerm's ways, sixel graphics), else in half
// blocks of 24-bit colours.
#pragma once
#include <string>

#include "hone/media/image.h"

namespace hone::cli {

enum class TerminalPictures { none, half_blocks, kitty, iterm, sixel };

// What the environment says of the terminal on stdout, or, where that is nothing, what the terminal answers.
TerminalPictures terminal_pictures();

// At most `columns` cells wide and `rows` high, followed by a newline; "" if not possible. `bytes` is the content of the file.
std::string thumbnail(const media::Image& image, std::string_view bytes, TerminalPictures kind, int64_t columns, int64_t rows);

}  // namespace hone::cli
