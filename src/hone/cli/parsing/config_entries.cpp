#include "hone/cli/parsing/config_entries.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "hone/base/file.h"
#include "hone/data/readers/encoding.h"

namespace hone::cli {

std::string read_utf8_file(const std::string& path) {
  auto content = read_file(path);
  if (auto problem = data::encoding_problem(content); !problem.empty())
    throw UserError(ExitCode::usage, fmt::format("{}: {}", path, problem));
  return content;
}

SystemAccess system_access() {
  return {[](const std::string& path) {
            if (!fs::exists(path) || fs::is_directory(path))
              throw UserError(ExitCode::usage, path + ": there is no such file", "check the path of the configuration");
            return read_utf8_file(path);
          },
          [](const std::string& variable) -> std::optional<std::string> {
            const char* value = std::getenv(variable.c_str());
            return value ? std::optional<std::string>(value) : std::nullopt;
          }};
}

std::vector<FileEntry> read_entries(const std::string& path, const std::string& text) {
  bool yaml = !path.ends_with(".json");
  auto root =
      (yaml ? parse_yaml(text) : parse_json(text))
          .or_throw(ExitCode::usage, path, yaml ? "fix that line, or an unclosed [ or quote above it" : "fix the file there");
  if (root.is_null()) return {};
  if (!root.is_object()) throw UserError(ExitCode::usage, fmt::format("{}: expected a mapping of option names to values", path));
  std::map<std::string, int> lines;
  int line = 0;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    auto row = std::string_view(text).substr(begin, end - begin);
    ++line;
    if (!yaml) row.remove_prefix(std::min(row.find_first_not_of(" \t{"), row.size()));
    bool quoted = row.starts_with('"') || row.starts_with('\'');
    auto colon = row.find(quoted ? row[0] : ':', quoted ? 1 : 0);
    if (colon != std::string_view::npos && colon > 0) lines.emplace(std::string(row.substr(quoted, colon - quoted)), line);
    begin = end + 1;
  }
  std::vector<FileEntry> entries;
  for (const auto& [key, value] : root.items()) {
    auto found = lines.find(key);
    entries.push_back({key, value, found == lines.end() ? 0 : found->second});
  }
  return entries;
}

}  // namespace hone::cli
