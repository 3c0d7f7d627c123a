// The options of a line as they were typed, before anybody looks up what they mean.
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
};

// Words of a line, its command first. Throws UserError(usage) when the line begins with something else than an option.
std::vector<GivenOption> read_given(const std::vector<std::string>& words);

// Logged once, by the process that starts the ranks.
void warn_once(const std::string& text);

// What a folder of the hub's files holds; mcore's own checkpoints are neither.
enum class FolderKind { model, adapter, other };
FolderKind kind_of_folder(const fs::path& folder);

}  // namespace hone::cli
