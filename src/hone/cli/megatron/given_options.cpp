#include "hone/cli/megatron/given_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/base/strings/lower_case.h"
#include "hone/cli/parsing/environment.h"

namespace hone::cli {

bool GivenOption::is_off() const {
  const auto lower = lower_case(value());
  return lower == "false" || lower == "0" || lower == "none";
}

int64_t GivenOption::whole_number() const {
  int64_t number = 0;
  const auto text = value();
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size() || number < 1)
    throw UserError(ExitCode::usage, fmt::format("--{} is \"{}\"", name, text), "expected a whole number of at least 1");
  return number;
}

double GivenOption::real_number() const {
  double number = -1;
  const auto text = value();
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size() || !(number >= 0) || !std::isfinite(number))
    throw UserError(ExitCode::usage, fmt::format("--{} is \"{}\"", name, text), "expected a number of at least 0");
  return number;
}

std::vector<GivenOption> read_given(const std::vector<std::string>& words) {
  std::vector<GivenOption> list;
  for (size_t i = 1; i < words.size(); ++i) {
    if (!words[i].starts_with("--") || words[i].size() == 2) {
      if (list.empty())
        throw UserError(ExitCode::usage, fmt::format("megatron {} begins with \"{}\"", words[0], words[i]),
                        "give options, as in --model …, or a file of options that ends with .yaml or .json");
      list.back().values.push_back(words[i]);
      continue;
    }
    auto name = words[i].substr(2);
    const auto equals = name.find('=');
    GivenOption option{underscored(name.substr(0, equals)), {}};
    if (equals != std::string::npos) option.values.push_back(name.substr(equals + 1));
    list.push_back(std::move(option));
  }
  return list;
}

void warn_once(const std::string& text) {
  if (is_reporting_process()) log::warning("{}", text);
}

FolderKind kind_of_folder(const fs::path& folder) {
  if (fs::exists(folder / "adapter_config.json")) return FolderKind::adapter;
  return fs::exists(folder / "config.json") ? FolderKind::model : FolderKind::other;
}

}  // namespace hone::cli
