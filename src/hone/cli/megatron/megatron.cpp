#include "hone/cli/megatron/megatron.h"

#include <algorithm>
#include <cctype>

#include "hone/base/strings/lower_case.h"

namespace hone::cli {

const MegatronOption* find_megatron_option(std::string_view name) {
  const auto known = std::ranges::find(megatron_options(), name, &MegatronOption::name);
  return known == megatron_options().end() ? nullptr : &*known;
}

bool is_neutral(const MegatronOption& option, std::string value) {
  value = lower_case(value);
  for (size_t begin = 0; begin <= option.neutral.size() && !option.neutral.empty();) {
    const auto end = std::min(option.neutral.find('|', begin), option.neutral.size());
    if (option.neutral.substr(begin, end - begin) == value) return true;
    begin = end + 1;
  }
  return false;
}

bool is_megatron_command(const std::vector<std::string>& words) {
  static constexpr std::string_view kCommands[] = {"sft", "pt", "rlhf", "export"};
  return !words.empty() && std::ranges::count(kCommands, words[0]) > 0;
}

std::vector<std::string> unwrap_megatron(const std::vector<std::string>& words, int processes) {
  if (!is_megatron_command(words)) return words;
  if (words.size() == 2 && (words[1] == "--help" || words[1] == "-h")) return words;
  return words[0] == "export" ? megatron_export_line(words) : megatron_training_line(words, processes);
}

}  // namespace hone::cli
