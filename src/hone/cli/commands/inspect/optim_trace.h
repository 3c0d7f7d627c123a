// Developers' command: applies recorded gradients with an optimizer and a schedule, so that tests can compare each with its peer.
#pragma once
#include <filesystem>
#include <string>

namespace hone::cli {

struct OptimTraceOptions {
  std::string optim = "adamw_torch";
  std::filesystem::path config;  // JSON: learning_rate, weight_decay, lr_scheduler_type, total_steps … as in training
  std::filesystem::path input;   // safetensors: "param/NAME" and "grad/STEP/NAME"; empty: the schedule alone
  std::filesystem::path output;  // safetensors: "param/NAME" after the last step, "state/…"
};

// Prints {"rates": […], "norms": […]}, one entry per step.
int optim_trace_command(const OptimTraceOptions& options);

}  // namespace hone::cli
