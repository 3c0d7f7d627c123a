// Terminal capabilities for progress bars and tables; nothing else uses isatty or COLUMNS.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace hone::terminal {

bool is_terminal(int fd);                     // 1 stdout, 2 stderr
bool has_colors(int fd);                      // a terminal, NO_COLOR unset, TERM not dumb
bool has_width(int fd);                       // a terminal, or COLUMNS is set
int columns();                                // width of the terminal on stderr, 80 when unknown
size_t display_width(std::string_view text);  // cells, counting CJK as two and escape sequences as none
std::string truncate(std::string_view text, size_t cells);

struct CellSize {
  int width = 10, height = 20;  // pixels
};
CellSize cell_size(int fd);  // as the terminal reports it, else a common size

// The terminal's response to the query for its attributes (DA1), such as {62, 4, 22}; 4 is sixel graphics. Empty where it
// does not respond in half a second, or this program is in the background.
std::vector<int> device_attributes(int fd);
// The numbers of such a response within `text`, "\x1b[?62;4;22c"; empty: there is none.
std::vector<int> parse_device_attributes(std::string_view text);

enum class Style { plain, bold, dim, red, green, yellow, blue, cyan };
// `text` wrapped in escape codes when `fd` shows colors, else unchanged.
std::string styled(std::string_view text, Style style, int fd = 1);

}  // namespace hone::terminal
