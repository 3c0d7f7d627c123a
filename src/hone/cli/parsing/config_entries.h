// Configuration files of users, read through an interface that tests replace.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hone/base/json.h"

namespace hone::cli {

// Access to files and the environment; tests and the fuzzer provide their own.
struct SystemAccess {
  std::function<std::string(const std::string& path)> read_file;  // throws UserError
  std::function<std::optional<std::string>(const std::string& variable)> environment;
};
SystemAccess system_access();
// A file written by a user: a configuration, a system prompt. Throws UserError(usage) for another encoding.
std::string read_utf8_file(const std::string& path);

// Top-level keys of a config file with their lines.
struct FileEntry {
  std::string key;
  Json value;
  int line = 0;
};
std::vector<FileEntry> read_entries(const std::string& path, const std::string& text);

}  // namespace hone::cli
