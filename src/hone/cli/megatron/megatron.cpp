#include "hone/cli/megatron/megatron.h"

#include <algorithm>
#include <cctype>

namespace hone::cli {

const MegatronOption* find_megatron_option(std::string_view name) {
  const auto known = std::ranges::find(megatron_options(), name, &MegatronOption::name);
  return known == megatron_options().end() ? nullptr : &*known;
}

bool is_neutral(const MegatronOption& option, std::string value) {
  std::ranges::transform(value, value.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (size_t begin = 0; begin <= option.neutral.size() && !option.neutral.empty();) {
    const auto end = std::min(option.neutral.find('|', begin), option.neutral.size());
    if (option.neutral.substr(begin, end - begin) == value) return true;
    begin = end + 1;
  }
  return false;
}

std::vector<std::string> unwrap_megatron(const std::vector<std::string>& words, int processes) {
  if (words.empty() || words[0].starts_with("-")) return words;
  const bool trains = words[0] == "sft" || words[0] == "pt" || words[0] == "rlhf";
  if (!trains && words[0] != "export") return words;
  if (words.size() == 2 && (words[1] == "--help" || words[1] == "-h")) return words;
  return trains ? megatron_training_line(words, processes) : megatron_export_line(words);
}

}  // namespace hone::cli
