#include "hone/cli/parsing/variables.h"

#include "hone/cli/arguments/distributed.h"
#include "hone/cli/arguments/model.h"
#include "hone/device/inventory.h"

namespace hone::cli {

Assignments variables_of(const Options& options) {
  const DistributedArguments distributed_args(options);
  const ModelArguments model_args(options);
  Assignments variables;
  if (model_args.model_kwargs.has_value())
    if (auto knobs = *model_args.model_kwargs; knobs.is_object())
      for (const auto& [name, value] : knobs.items()) {
        std::string variable = name;
        std::ranges::transform(variable, variable.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
        variables.emplace_back(variable, show_value(value));
      }
  if (distributed_args.master_addr.has_value()) variables.emplace_back("MASTER_ADDR", *distributed_args.master_addr);
  if (distributed_args.master_port.has_value()) variables.emplace_back("MASTER_PORT", distributed_args.master_port.text());
  if (distributed_args.local_rank.exists() && *distributed_args.local_rank >= 0)
    variables.emplace_back("LOCAL_RANK", distributed_args.local_rank.text());
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
