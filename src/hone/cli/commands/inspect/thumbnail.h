// A small picture in the terminal: as one where the terminal shows those (kitty's and iTerm's ways, sixel graphics), else in half
// blocks of 24-bit colours.
#pragma once
#include <string>

#include "hone/media/image.h"

namespace hone::cli {

enum class TerminalPictures { none, half_blocks, kitty, iterm, sixel };

// The graphics of the terminal on stdout: by the environment, or, if that has nothing, by the terminal's own response.
TerminalPictures terminal_pictures();

// At most `columns` cells wide and `rows` high, followed by a newline; "" if not possible. `bytes` is the content of the file.
std::string thumbnail(const media::Image& image, std::string_view bytes, TerminalPictures kind, int64_t columns, int64_t rows);

}  // namespace hone::cli
