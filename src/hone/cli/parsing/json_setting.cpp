#include "hone/cli/parsing/json_setting.h"

#include "hone/base/error.h"
#include "hone/base/file.h"

namespace hone::cli {

Json json_setting(std::string_view where, const Json& object, std::string_view key, const Type& type) {
  const auto found = object.find(key);
  if (found == object.end()) return nullptr;
  auto value = read_value(Option(key, type, "", ""), *found);
  if (!value)
    throw UserError(ExitCode::usage, fmt::format("{}: {} is {}; {}", where, key, show_value(*found), value.error()),
                    "correct or remove that setting");
  return std::move(value).value();
}

Json as_mapping(std::string_view where, Json value, std::string_view example) {
  if (value.is_null()) return Json::object();
  if (value.is_object()) return value;
  throw UserError(ExitCode::usage, fmt::format("{} is {}; expected a mapping", where, show_value(value)),
                  fmt::format("write it as {}", example));
}

Json read_mapping(const std::string& path, std::string_view example) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored))
    throw UserError(ExitCode::usage, path + ": there is no such file", "check the path of the configuration");
  return as_mapping(path, read_config_file(path), example);
}

}  // namespace hone::cli
