#include "hone/base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <mutex>

#include "hone/base/log.h"
#include "hone/base/terminal.h"

namespace hone {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLiveInterval = std::chrono::milliseconds(80);
constexpr auto kLogInterval = std::chrono::seconds(30);

std::recursive_mutex g_mutex;
ProgressBar* g_active = nullptr;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string bar_of(double fraction, int cells) {
  static constexpr const char* kParts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  int eighths = static_cast<int>(std::lround(fraction * cells * 8));
  std::string bar;
  for (int i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kParts[eighths % 8];
  int used = eighths / 8 + (eighths % 8 > 0);
  return bar + std::string(static_cast<size_t>(std::max(0, cells - used)), ' ');
}

// The first items of a note, separated by two spaces, that fit into the given width.
std::string fitting_items(std::string_view note, size_t cells) {
  std::string out;
  while (!note.empty()) {
    auto item = note.substr(0, note.find("  "));
    if (terminal::display_width(out) + terminal::display_width(item) + 2 > cells) break;
    out += "  " + std::string(item);
    note.remove_prefix(std::min(note.size(), item.size() + 2));
  }
  return out;
}

void put(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

ProgressBar::ProgressBar(std::string label, int64_t total, int64_t start, Unit unit)
    : label_(std::move(label)),
      total_(total),
      start_(start),
      done_(start),
      unit_(unit),
      began_(Clock::now()),
      drawn_(began_ - kLogInterval),
      live_(terminal::is_terminal(2)) {
  std::lock_guard lock(g_mutex);
  g_active = this;
  if (live_) draw();  // the first step of a large model is slow
}

ProgressBar::~ProgressBar() { finish(); }

void ProgressBar::update(int64_t done, std::string_view note) {
  std::lock_guard lock(g_mutex);
  done_ = done;
  note_ = note;
  bool due = Clock::now() - drawn_ >= (live_ ? Clock::duration(kLiveInterval) : Clock::duration(kLogInterval));
  if (due || done_ == total_) draw();
}

void ProgressBar::finish() {
  std::lock_guard lock(g_mutex);
  if (finished_) return;
  finished_ = true;
  if (live_) {
    draw();
    put("\n");
  }
  if (g_active == this) g_active = nullptr;
}

std::string ProgressBar::amount(int64_t value) const {
  return unit_ == Unit::bytes ? format_bytes(static_cast<double>(value)) : fmt::format("{}", value);
}

void ProgressBar::draw() {
  drawn_ = Clock::now();
  double fraction = total_ > 0 ? std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_)) : 0.0;
  double elapsed = seconds_since(began_);
  double rate = elapsed > 0 ? static_cast<double>(done_ - start_) / elapsed : 0.0;
  bool known = total_ > 0 && (done_ >= total_ || (rate > 0 && elapsed > 1));
  std::string left = known ? format_duration(rate > 0 ? static_cast<double>(total_ - done_) / rate : 0.0) : "?";
  std::string counts = total_ > 0 ? fmt::format("{}/{}", amount(done_), amount(total_)) : amount(done_);
  std::string times = fmt::format("{}<{}", format_duration(elapsed), left);
  if (unit_ == Unit::bytes) times += fmt::format(" {}/s", format_bytes(rate));
  if (!live_) {
    log::info("{} {} ({:.0f}%) {}{}{}", label_, counts, fraction * 100, times, note_.empty() ? "" : "  ", note_);
    return;
  }
  constexpr size_t kEcho = 2;  // the terminal shows Ctrl-C as ^C behind the bar
  size_t width = static_cast<size_t>(std::max<int>(terminal::columns() - static_cast<int>(kEcho), 1));
  std::string head = fmt::format("{} {:3.0f}% ", label_, fraction * 100);
  std::string tail = fmt::format(" {} {}", counts, times);
  constexpr size_t kLeastBar = 10, kWidestBar = 30, kEdges = 3;
  size_t fixed = terminal::display_width(head) + terminal::display_width(tail) + kEdges;
  auto note = fitting_items(note_, width > fixed + kLeastBar ? width - fixed - kLeastBar : 0);
  fixed += terminal::display_width(note);
  size_t bar_cells = width > fixed ? std::min(kWidestBar, width - fixed) : 0;
  if (bar_cells < 6) bar_cells = 0;
  std::string bar = bar_cells ? "▕" + bar_of(fraction, static_cast<int>(bar_cells)) + "▏" : "";
  std::string line = head + bar + tail + note;
  put("\r\x1b[2K" + terminal::truncate(line, width > 1 ? width - 1 : 1));
}

void ProgressBar::set_active_status(std::string_view note) {
  std::lock_guard lock(g_mutex);
  if (!g_active) return;
  if (!g_active->live_ && Clock::now() - std::max(g_active->drawn_, g_active->began_) < kLogInterval) return;
  const auto activity = [](std::string_view text) { return std::string(text.substr(0, text.find(' '))); };
  if (g_active->live_ && activity(note) != activity(g_active->note_)) g_active->drawn_ = {};  // shown at once: it may last
  g_active->update(g_active->done_, note);
}

void ProgressBar::erase_active() {
  g_mutex.lock();
  if (g_active && g_active->live_) put("\r\x1b[2K");
}

void ProgressBar::redraw_active() {
  if (g_active && g_active->live_ && !g_active->finished_) g_active->draw();
  g_mutex.unlock();
}

std::string format_duration(double seconds) {
  auto total = static_cast<int64_t>(std::llround(seconds));
  if (total >= 3600) return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
  return fmt::format("{:02}:{:02}", total / 60, total % 60);
}

std::string format_count(double value) {
  if (value >= 1e9) return fmt::format("{:.1f}B", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.1f}M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:.1f}k", value / 1e3);
  return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{:.1f}", value);
}

std::string format_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) bytes /= 1024, ++unit;
  return fmt::format("{:.{}f} {}", bytes, unit ? 1 : 0, kUnits[unit]);
}

}  // namespace hone
