#include "hone/tuner/multi_adapter.h"

#include <algorithm>
#include <utility>

#include "hone/tuner/lora_init.h"

namespace hone::tuner {
namespace {

template <class Visit>
void for_each_adapter_list(model::CausalLM& model, Visit visit) {
  visit(model.head().adapters);  // a tied head has no slot of its own
  for (auto& slot : model.tree().slots()) visit(*slot.adapters);
}

void switch_adapter(model::CausalLM& model, const std::string& name, bool active) {
  if (name.empty()) return;
  for_each_adapter_list(model, [&](auto& adapters) {
    for (auto& adapter : adapters)
      if (adapter.adapter == name) adapter.active = active;
  });
}

}  // namespace

std::string multi_adapter_conflict(const fs::path& folder) {
  auto config = io::read_adapter_config(folder);
  if (!config.is_lora())
    return fmt::format("it is of the kind {}, and only LoRA can be added to some rows of a batch", config.peft_type);
  if (!config.modules_to_save.empty()) return "it has its own full modules (modules_to_save)";
  if (config.bias != "none") return fmt::format("it has its own biases (bias \"{}\")", config.bias);
  const bool taken_out = config.init == kLoraGa && fs::exists(folder / kInitialFolder);
  if (changes_base(config.init) || taken_out)
    return fmt::format("it was made for a changed base (init_lora_weights \"{}\")", config.init);
  return "";
}

void set_inactive(model::CausalLM& model, const std::string& name) { switch_adapter(model, name, false); }

ActiveAdapter::ActiveAdapter(model::CausalLM& model, std::string name) : model_(model), name_(std::move(name)) {
  switch_adapter(model_, name_, true);
}

void delete_adapter(model::CausalLM& model, const std::string& name) {
  for_each_adapter_list(
      model, [&](auto& adapters) { std::erase_if(adapters, [&](const auto& adapter) { return adapter.adapter == name; }); });
  for (auto* linear : model.tree().linears())
    std::erase_if(linear->tuners, [&](const auto& tuner) { return tuner->adapter == name; });
}

bool uses_dora(model::CausalLM& model, const std::string& name) {
  bool found = false;
  for_each_adapter_list(model, [&](auto& adapters) {
    for (const auto& adapter : adapters) found |= adapter.adapter == name && adapter.magnitude.defined();
  });
  return found;
}

bool changes_experts(model::CausalLM& model, const std::string& name) {
  return std::ranges::any_of(model.tree().slots(), [&](const model::AdapterSlot& slot) {
    return slot.kind == model::SlotKind::experts &&
           std::ranges::any_of(*slot.adapters, [&](const auto& adapter) { return adapter.adapter == name; });
  });
}

}  // namespace hone::tuner
