#include "hone/cli/parsing/variables.h"

#include "hone/device/inventory.h"

namespace hone::cli {

Assignments variables_of(const Options& options) {
  Assignments variables;
  if (options.has_option("model_kwargs") && options.has("model_kwargs"))
    if (auto knobs = options.json("model_kwargs"); knobs.is_object())
      for (const auto& [name, value] : knobs.items()) {
        std::string variable = name;
        std::ranges::transform(variable, variable.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
        variables.emplace_back(variable, show_value(value));
      }
  if (options.has_option("master_addr") && options.has("master_addr"))
    variables.emplace_back("MASTER_ADDR", options.text("master_addr"));
  if (options.has_option("master_port") && options.has("master_port"))
    variables.emplace_back("MASTER_PORT", options.text("master_port"));
  if (options.has_option("local_rank") && options.integer("local_rank") >= 0)
    variables.emplace_back("LOCAL_RANK", options.text("local_rank"));
  return variables;
}

std::string absent_family(const SystemAccess& world) {
  constexpr std::pair<const char*, std::string_view> kFamilies[] = {{"ASCEND_RT_VISIBLE_DEVICES", "npu"},
                                                                    {"CUDA_VISIBLE_DEVICES", "cuda"}};
  for (const auto& [variable, family] : kFamilies) {
    auto value = world.environment(variable);
    if (!value || value->empty() || *value == "-1") continue;
    auto devices = device::inventory();
    auto is_of = [&](const device::DeviceRecord& d) { return d.name.starts_with(family); };
    if (std::ranges::any_of(devices, is_of)) continue;
    auto last = devices.back().name;
    return fmt::format("{} is set, and there is no such device here: running on {}", variable, last.substr(0, last.find(':')));
  }
  return "";
}

}  // namespace hone::cli
