// The options of a command line as typed, before interpretation.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hone/base/file.h"

namespace hone::cli {

struct GivenOption {
  std::string name;
  std::vector<std::string> values;

  std::string value() const { return values.empty() ? "true" : values.front(); }
  bool is_off() const;           // false, 0 or none
  int64_t whole_number() const;  // throws UserError(usage) for anything but a number of at least 1
  double real_number() const;    // throws UserError(usage) for anything but a number of at least 0
};

// Arguments of a command line, its command first. Throws UserError(usage) if it does not start with an option.
std::vector<GivenOption> read_given(const std::vector<std::string>& words);

// Logged once, by the process that starts the ranks.
void warn_once(const std::string& text);

// The kind of a Hugging Face folder; mcore's own checkpoints are neither.
enum class FolderKind { model, adapter, other };
FolderKind kind_of_folder(const fs::path& folder);

}  // namespace hone::cli
