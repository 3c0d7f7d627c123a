#include "hone/base/terminal.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace hone::terminal {
namespace {

struct Glyph {
  size_t bytes, cells;
};

// Enough of UTF-8 and East Asian width to align a table; invalid bytes count as one cell.
Glyph glyph_at(std::string_view text) {
  auto lead = static_cast<unsigned char>(text[0]);
  size_t bytes = lead < 0x80 ? 1 : lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (bytes == 1 || bytes > text.size()) return {1, lead < 0x20 ? size_t{0} : size_t{1}};
  uint32_t code = lead & (0xFF >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
  bool combining = (code >= 0x300 && code <= 0x36F) || (code >= 0x200B && code <= 0x200F) || (code >= 0xFE00 && code <= 0xFE0F);
  bool wide = (code >= 0x1100 && code <= 0x115F) || (code >= 0x2E80 && code <= 0xA4CF) || (code >= 0xAC00 && code <= 0xD7A3) ||
              (code >= 0xF900 && code <= 0xFAFF) || (code >= 0xFE30 && code <= 0xFE6F) || (code >= 0xFF00 && code <= 0xFF60) ||
              (code >= 0xFFE0 && code <= 0xFFE6) || (code >= 0x1F300 && code <= 0x1FAFF) || (code >= 0x20000 && code <= 0x3FFFD);
  return {bytes, combining ? size_t{0} : wide ? size_t{2} : size_t{1}};
}

size_t escape_length(std::string_view text) {
  if (text.size() < 2 || text[0] != '\x1b' || text[1] != '[') return 0;
  size_t end = 2;
  while (end < text.size() && !(text[end] >= '@' && text[end] <= '~')) ++end;
  return end < text.size() ? end + 1 : end;
}

// While a response is awaited: no echo, no lines, and no key is a signal. Signals wait until the terminal is as before.
class RawInputMode {
 public:
  explicit RawInputMode(int fd) : fd_(fd) {
    sigset_t ends;
    ::sigemptyset(&ends);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}) ::sigaddset(&ends, signal);
    ::pthread_sigmask(SIG_BLOCK, &ends, &mask_before_);
    if (::tcgetattr(fd, &before_) != 0) return;
    auto raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    raw.c_cc[VMIN] = raw.c_cc[VTIME] = 0;
    is_set_ = ::tcsetattr(fd, TCSANOW, &raw) == 0;
  }
  RawInputMode(const RawInputMode&) = delete;
  ~RawInputMode() {
    if (is_set_) ::tcsetattr(fd_, discards_input_ ? TCSAFLUSH : TCSANOW, &before_);
    ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  }
  bool is_set() const { return is_set_; }
  bool is_interrupt(char key) const {
    return (before_.c_lflag & ISIG) != 0 && static_cast<cc_t>(key) == before_.c_cc[VINTR] && key != 0;
  }
  void set_discards_input(bool discards) { discards_input_ = discards; }

 private:
  int fd_;
  termios before_{};
  sigset_t mask_before_{};
  bool is_set_ = false, discards_input_ = false;
};

bool has_input(int fd, std::chrono::steady_clock::time_point until) {
  using Milliseconds = std::chrono::milliseconds;
  while (true) {
    const auto left = std::chrono::duration_cast<Milliseconds>(until - std::chrono::steady_clock::now());
    pollfd ready{fd, POLLIN, 0};
    const int found = ::poll(&ready, 1, static_cast<int>(std::max(left, Milliseconds(0)).count()));
    if (found >= 0 || errno != EINTR) return found > 0;
  }
}

// Changing a terminal from the background would stop the program.
bool is_in_background(int fd) {
  const pid_t front = ::tcgetpgrp(fd);
  return front >= 0 && front != ::getpgrp();
}

// Does not ask if something was typed before: it would be taken for the response. Reads byte by byte: input after the
// response stays for the next reader.
std::vector<int> ask_device_attributes(int fd, bool& is_interrupted) {
  using Clock = std::chrono::steady_clock;
  constexpr std::string_view kQuestion = "\x1b[c";
  constexpr size_t kLongest = 1024;
  RawInputMode mode(fd);
  if (!mode.is_set() || has_input(fd, Clock::now())) return {};
  if (::write(fd, kQuestion.data(), kQuestion.size()) != static_cast<ssize_t>(kQuestion.size())) return {};
  mode.set_discards_input(true);  // unless the response is read to its end
  const auto until = Clock::now() + std::chrono::milliseconds(500);
  std::string response;
  char next = 0;
  while (response.size() < kLongest && has_input(fd, until) && ::read(fd, &next, 1) == 1) {
    is_interrupted = mode.is_interrupt(next);
    if (is_interrupted) break;
    response += next;
    auto attributes = next == 'c' ? parse_device_attributes(response) : std::vector<int>();
    if (attributes.empty()) continue;
    mode.set_discards_input(false);
    return attributes;
  }
  return {};
}

}  // namespace

bool is_terminal(int fd) { return ::isatty(fd) == 1; }

bool has_colors(int fd) {
  const char* kind = std::getenv("TERM");
  return is_terminal(fd) && !std::getenv("NO_COLOR") && kind && std::strcmp(kind, "dumb") != 0;
}

int columns() {
  winsize size{};
  if (::ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  if (const char* setting = std::getenv("COLUMNS"); setting && std::atoi(setting) > 0) return std::atoi(setting);
  return 80;
}

CellSize cell_size(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  const CellSize cell{size.ws_xpixel / size.ws_col, size.ws_ypixel / size.ws_row};
  auto is_likely = [](int pixels) { return pixels > 0 && pixels <= 200; };
  return is_likely(cell.width) && is_likely(cell.height) ? cell : CellSize{};
}

std::vector<int> parse_device_attributes(std::string_view text) {
  constexpr std::string_view kBegin = "\x1b[?";
  for (size_t at = text.find(kBegin); at != text.npos; at = text.find(kBegin, at + 1)) {
    std::vector<int> attributes;
    const char *next = text.data() + at + kBegin.size(), *end = text.data() + text.size();
    for (int value = 0; next < end; ++next) {
      const auto read = std::from_chars(next, end, value);
      if (read.ec != std::errc()) break;
      attributes.push_back(value);
      next = read.ptr;
      if (next < end && *next == 'c') return attributes;
      if (next == end || *next != ';') break;
    }
  }
  return {};
}

std::vector<int> device_attributes(int fd) {
  if (!is_terminal(fd) || is_in_background(fd)) return {};
  bool is_interrupted = false;
  auto attributes = ask_device_attributes(fd, is_interrupted);
  if (is_interrupted) ::raise(SIGINT);
  return attributes;
}

bool has_width(int fd) { return is_terminal(fd) || std::getenv("COLUMNS"); }

size_t display_width(std::string_view text) {
  size_t cells = 0;
  while (!text.empty()) {
    if (size_t skip = escape_length(text)) {
      text.remove_prefix(skip);
      continue;
    }
    auto glyph = glyph_at(text);
    cells += glyph.cells;
    text.remove_prefix(glyph.bytes);
  }
  return cells;
}

std::string truncate(std::string_view text, size_t cells) {
  if (display_width(text) <= cells) return std::string(text);
  if (cells == 0) return "";
  std::string kept;
  size_t used = 0;
  bool escaped = false;
  while (!text.empty()) {
    size_t escape = escape_length(text);
    auto glyph = escape ? Glyph{escape, 0} : glyph_at(text);
    if (used + glyph.cells > cells - 1) break;
    escaped |= escape > 0;
    used += glyph.cells;
    kept.append(text.substr(0, glyph.bytes));
    text.remove_prefix(glyph.bytes);
  }
  return kept + "…" + (escaped ? "\x1b[0m" : "");
}

std::string styled(std::string_view text, Style style, int fd) {
  static constexpr const char* kCodes[] = {"", "1", "2", "31", "32", "33", "34", "36"};
  if (style == Style::plain || !has_colors(fd)) return std::string(text);
  return std::string("\x1b[") + kCodes[static_cast<int>(style)] + "m" + std::string(text) + "\x1b[0m";
}

}  // namespace hone::terminal
