// A progress bar on a terminal, an occasional line in a pipe or log file. One bar is shown at a time.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace hone {

class ProgressBar {
 public:
  enum class Unit { count, bytes };
  ProgressBar(std::string label, int64_t total, int64_t start = 0, Unit unit = Unit::count);
  ~ProgressBar();  // leaves the cursor on a fresh line
  ProgressBar(const ProgressBar&) = delete;

  // `note` is shown after the counts, truncated to fit: "loss 1.234  lr 1.0e-4  1.2k tok/s".
  void update(int64_t done, std::string_view note = {});
  void finish();

  // Sets a temporary note on the current bar, if any; its next update replaces it.
  static void set_active_status(std::string_view note);

  // Called by the logger around a line, so that it does not break the bar.
  static void erase_active();
  static void redraw_active();

 private:
  void draw();
  std::string amount(int64_t value) const;
  std::string label_, note_;
  int64_t total_, start_, done_;
  Unit unit_;
  std::chrono::steady_clock::time_point began_, drawn_;
  bool live_, finished_ = false;
};

std::string format_duration(double seconds);  // 1:02:03 or 02:03
std::string format_count(double value);       // 1.2k, 3.4M
std::string format_bytes(double bytes);       // 1.5 GiB

}  // namespace hone
