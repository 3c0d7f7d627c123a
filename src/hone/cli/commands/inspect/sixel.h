// Sixel graphics of DEC's terminals, which xterm, foot, mlterm, WezTerm, tmux and others show.
#pragma once
#include <string>

#include "hone/media/image.h"

namespace hone::cli {

// `image` is RGB. At most 252 colours, dithered.
std::string sixel(const media::Image& image);

}  // namespace hone::cli
