#include "hone/cli/page.h"

#include <algorithm>

#include "hone/base/terminal.h"

namespace hone::cli {

size_t page_width() { return static_cast<size_t>(std::clamp(terminal::columns(), 48, 120)); }

std::string wrap(std::string_view text, size_t width, size_t indent) {
  std::string out;
  size_t used = 0;
  while (!text.empty()) {
    auto word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (word.empty()) continue;
    auto cells = terminal::display_width(word);
    if (used && used + 1 + cells > width) {
      out += "\n" + std::string(indent, ' ');
      used = 0;
    }
    if (used) out += ' ', ++used;
    out += word;
    used += cells;
  }
  return out;
}

std::string padded(std::string_view text, size_t cells) {
  auto width = terminal::display_width(text);
  return std::string(text) + std::string(width < cells ? cells - width : 0, ' ');
}

}  // namespace hone::cli
