#include "hone/cli/commands/inspect/thumbnail.h"

#include <fmt/format.h>

#include <algorithm>

#include "hone/base/strings/base64.h"
#include "hone/base/terminal.h"
#include "hone/cli/commands/inspect/sixel.h"
#include "hone/cli/parsing/environment.h"
#include "hone/media/medium.h"
#include "hone/media/resize.h"

namespace hone::cli {
namespace {

// Assumes cells twice as high as wide.
media::ImageSize cells_of(media::ImageSize size, int64_t columns, int64_t rows) {
  const double by = std::min({static_cast<double>(columns) / static_cast<double>(size.width),
                              2.0 * static_cast<double>(rows) / static_cast<double>(size.height), 1.0});
  auto scaled = [&](int64_t side) { return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(side) * by)); };
  return {scaled(size.width), (scaled(size.height) + 1) / 2};
}

// Each cell shows two pixels, one above the other.
std::string half_blocks(const media::Image& image, media::ImageSize cells) {
  const auto small = media::resize(image, {cells.width, 2 * cells.height}, media::Filter::bilinear);
  std::string out;
  for (int64_t y = 0; y < small.size.height; y += 2) {
    for (int64_t x = 0; x < small.size.width; ++x) {
      const auto* upper = small.pixels.data() + 3 * (y * small.size.width + x);
      const auto* lower = upper + 3 * small.size.width;
      out += fmt::format("\x1b[38;2;{};{};{};48;2;{};{};{}m▀", upper[0], upper[1], upper[2], lower[0], lower[1], lower[2]);
    }
    out += "\x1b[0m\n";
  }
  return out;
}

// As large as fits into its cells, with its own ratio.
media::Image resized_to(const media::Image& image, media::ImageSize cells) {
  const auto cell = terminal::cell_size(1);
  media::ImageSize size{cells.width * cell.width, cells.height * cell.height};
  const int64_t height = size.width * image.size.height / image.size.width;  // at the full width
  if (height > size.height)
    size.width = std::max<int64_t>(1, size.height * image.size.width / image.size.height);
  else
    size.height = std::max<int64_t>(1, height);
  return media::resize(image, size, media::Filter::bilinear);
}

// Raw pixels in pieces of at most 4096 characters.
std::string kitty(const media::Image& small, media::ImageSize cells) {
  constexpr size_t kPiece = 4096;
  const auto data = encode_base64({reinterpret_cast<const char*>(small.pixels.data()), small.pixels.size()});
  std::string out;
  for (size_t at = 0; at < data.size(); at += kPiece) {
    const auto head =
        at == 0 ? fmt::format("a=T,f=24,s={},v={},c={},r={},q=2,", small.size.width, small.size.height, cells.width, cells.height)
                : "";
    out += fmt::format("\x1b_G{}m={};{}\x1b\\", head, at + kPiece < data.size() ? 1 : 0, data.substr(at, kPiece));
  }
  return out + "\n";
}

// Terminals whose name implies sixel graphics.
bool is_sixel_terminal(const std::string& name) {
  return name == "foot" || name.starts_with("foot-") || name.starts_with("mlterm") || name.find("sixel") != name.npos;
}

bool answers_sixel() { return std::ranges::count(terminal::device_attributes(1), 4) > 0; }

}  // namespace

TerminalPictures terminal_pictures() {
  if (!terminal::has_colors(1)) return TerminalPictures::none;
  const auto program = environment_value("TERM_PROGRAM"), colours = environment_value("COLORTERM");
  if (!environment_value("KITTY_WINDOW_ID").empty() || environment_value("TERM") == "xterm-kitty" || program == "ghostty")
    return TerminalPictures::kitty;
  if (program == "iTerm.app" || program == "WezTerm") return TerminalPictures::iterm;
  if (is_sixel_terminal(environment_value("TERM")) || answers_sixel()) return TerminalPictures::sixel;
  return colours == "truecolor" || colours == "24bit" ? TerminalPictures::half_blocks : TerminalPictures::none;
}

std::string thumbnail(const media::Image& image, std::string_view bytes, TerminalPictures kind, int64_t columns, int64_t rows) {
  if (kind == TerminalPictures::none) return "";
  const auto cells = cells_of(image.size, columns, rows);
  if (kind == TerminalPictures::iterm)
    return fmt::format("\x1b]1337;File=inline=1;width={};height={};preserveAspectRatio=1:{}\a\n", cells.width, cells.height,
                       encode_base64(bytes));
  const auto colours = media::to_rgb(image);
  if (kind == TerminalPictures::half_blocks) return half_blocks(colours, cells);
  const auto small = resized_to(colours, cells);
  return kind == TerminalPictures::kitty ? kitty(small, cells) : sixel(small) + "\n";
}

}  // namespace hone::cli
