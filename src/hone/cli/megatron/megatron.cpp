#include "hone/cli/megatron/megatron.h"

#include <algorithm>

namespace hone::cli {

const MegatronOption* find_megatron_option(std::string_view name) {
  const auto known = std::ranges::find(megatron_options(), name, &MegatronOption::name);
  return known == megatron_options().end() ? nullptr : &*known;
}

std::vector<std::string> unwrap_megatron(const std::vector<std::string>& words, int processes) {
  if (words.empty() || words[0].starts_with("-")) return words;
  const bool trains = words[0] == "sft" || words[0] == "pt" || words[0] == "rlhf";
  if (!trains && words[0] != "export") return words;
  if (words.size() == 2 && (words[1] == "--help" || words[1] == "-h")) return words;
  return trains ? megatron_training_line(words, processes) : megatron_export_line(words);
}

}  // namespace hone::cli
