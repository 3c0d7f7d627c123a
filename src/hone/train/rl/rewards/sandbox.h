// Runs an untrusted Python program in a bubblewrap sandbox: no network, only system files, no other processes, limited time,
// memory and output.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace hone::train::rl {

struct SandboxConfig {
  bool enabled = false;
  double timeout = 10;                        // seconds for one program
  int64_t memory_limit = int64_t{512} << 20;  // bytes of address space
  int64_t output_limit = int64_t{64} << 10;   // bytes
};

struct ProgramResult {
  enum class End { finished, failed, timed_out, too_much_output, died };
  End end = End::failed;
  std::string output;
  std::string why;  // in words, "" for one that finished
};

// Throws UserError(usage) where this machine has no bubblewrap, or may not use it.
void require_sandbox();
// `input` is its standard input. Throws UserError(failure) if it cannot be started. `is_cancelled` is polled while it runs.
ProgramResult run_in_sandbox(const std::string& program, const std::string& input, const SandboxConfig& config,
                             const std::function<bool()>& is_cancelled = {});
// The program and then `checks`, statements that must not fail. A program that ends before its checks have run has failed.
ProgramResult run_checks_in_sandbox(const std::string& program, const std::string& checks, const SandboxConfig& config,
                                    const std::function<bool()>& is_cancelled = {});

}  // namespace hone::train::rl
