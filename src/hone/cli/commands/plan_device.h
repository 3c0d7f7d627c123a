// The device of a plan, and the wording of whether it fits.
#pragma once
#include <string>

#include "hone/base/terminal.h"
#include "hone/cli/options.h"
#include "hone/train/plan/devices.h"

namespace hone::cli {

struct TargetDevice {
  train::PlannedDevice device;
  std::string name;      // "Ascend 910B3 64 GB"
  bool assumed = false;  // none was named and this machine has none
};

// --target_device, else an accelerator of this machine, else the first of the list; the CPU if the command runs on it.
TargetDevice target_device(const Options& plan_options, bool on_cpu);

// "fits on 8 x Ascend 910B3 64 GB: 28.7 of 64 GiB", green or red on a terminal.
std::string fit_line(bool fits, int devices, const TargetDevice& target, double needed_bytes);

// The width of tables and texts: the terminal's. Programs that read a pipe get each row and text on one line.
size_t plan_width();
// An indented text below the first line.
void print_note(const std::string& text, terminal::Style style = terminal::Style::plain);

std::string gib(double bytes);             // "28.7"
std::string seconds_text(double seconds);  // "0.42 s", "3.1 min"

}  // namespace hone::cli
