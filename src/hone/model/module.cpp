#include "hone/model/module.h"

#include <algorithm>
#include <functional>

namespace hone::model {
namespace {

using Visit = std::function<void(const Module&)>;

void walk(const Module& module, const Visit& visit) {
  visit(module);
  for (const auto& child : module.children) walk(child, visit);
}

template <class List>
void append_all(List& list, List more) {
  list.insert(list.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

struct OwnParameters {
  std::vector<NamedParameter> operator()(std::monostate) const { return {}; }
  std::vector<NamedParameter> operator()(Embedding* layer) const { return {{layer->name + ".weight", &layer->weight}}; }
  std::vector<NamedParameter> operator()(Norm* layer) const { return with_bias(layer); }
  std::vector<NamedParameter> operator()(ExpertWeights* layer) const { return {{layer->name, &layer->weight}}; }
  std::vector<NamedParameter> operator()(Parameter* parameter) const { return {{parameter->name, &parameter->weight}}; }
  std::vector<NamedParameter> operator()(Linear* layer) const { return with_bias(layer); }

 private:
  static std::vector<NamedParameter> with_bias(auto* layer) {
    std::vector<NamedParameter> list{{layer->name + ".weight", &layer->weight}};
    if (layer->bias.defined()) list.push_back({layer->name + ".bias", &layer->bias});
    return list;
  }
};

struct Adapted {
  Tensor* weight = nullptr;
  std::vector<ops::LoraWeights>* adapters = nullptr;
};

struct AdaptedWeight {
  Adapted operator()(std::monostate) const { return {}; }
  Adapted operator()(Norm*) const { return {}; }
  Adapted operator()(Parameter*) const { return {}; }
  Adapted operator()(auto* layer) const { return {&layer->weight, &layer->adapters}; }
};

AdapterSlot slot_of(const Module& module) {
  auto [weight, adapters] = std::visit(AdaptedWeight(), module.layer);
  return {module.path, module.owner.empty() ? module.path : module.owner, *module.slot, weight, adapters};
}

// "…q_proj.oft_R.default.weight": PEFT puts the adapter's name after the first part of a tensor's name.
void append_tuner_parameters(std::vector<NamedParameter>& list, const Linear& linear) {
  for (const auto& tuner : linear.tuners)
    for (auto& own : tuner->tensors()) {
      const size_t dot = std::min(own.name.find('.'), own.name.size());
      list.push_back(
          {fmt::format("{}.{}.{}{}", linear.name, own.name.substr(0, dot), tuner->adapter, own.name.substr(dot)), own.value});
    }
}

void append_lora_parameters(std::vector<NamedParameter>& list, const AdapterSlot& slot) {
  const bool embedding = slot.kind == SlotKind::embedding;
  for (auto& adapter : *slot.adapters) {
    const auto named = [&](const char* matrix) {
      return embedding ? fmt::format("{}.lora_embedding_{}.{}", slot.owner, matrix, adapter.adapter)
                       : fmt::format("{}.lora_{}.{}.weight", slot.owner, matrix, adapter.adapter);
    };
    list.push_back({named("A"), &adapter.a});
    list.push_back({named("B"), &adapter.b});
    if (adapter.magnitude.defined())
      list.push_back({fmt::format("{}.lora_magnitude_vector.{}.weight", slot.owner, adapter.adapter), &adapter.magnitude});
  }
}

Module leaf(auto& layer, std::optional<SlotKind> slot) { return {.path = layer.name, .layer = &layer, .slot = slot}; }

// PEFT wraps the module that holds both parameters once per adapted parameter: the first one's wrapper is inside the other's.
std::string wrapper_of(const ExpertWeights& weights, bool inside) {
  return weights.name.substr(0, weights.name.rfind('.')) + (inside ? ".base_layer" : "");
}

}  // namespace

std::vector<NamedParameter> Module::parameters() const {
  std::vector<NamedParameter> list;
  walk(*this, [&](const Module& module) {
    if (!module.is_tied) append_all(list, std::visit(OwnParameters(), module.layer));
  });
  return list;
}

std::vector<Linear*> Module::linears() const {
  std::vector<Linear*> list;
  walk(*this, [&](const Module& module) {
    if (module.slot == SlotKind::linear && !module.is_tied) list.push_back(std::get<Linear*>(module.layer));
  });
  return list;
}

std::vector<AdapterSlot> Module::slots() const {
  std::vector<AdapterSlot> list;
  if (slot && !is_tied) list.push_back(slot_of(*this));
  for (const auto& child : children) {
    std::vector<AdapterSlot> own;
    walk(child, [&](const Module& module) {
      if (module.slot && !module.is_tied) own.push_back(slot_of(module));
    });
    std::ranges::stable_partition(
        own, [](SlotKind kind) { return kind == SlotKind::linear || kind == SlotKind::embedding; }, &AdapterSlot::kind);
    append_all(list, std::move(own));
  }
  return list;
}

std::vector<NamedParameter> Module::adapter_parameters() const {
  std::vector<NamedParameter> list;
  for (const auto& slot : slots()) append_lora_parameters(list, slot);
  for (const auto* linear : linears()) append_tuner_parameters(list, *linear);
  return list;
}

void Module::rename(const std::string& from, const std::string& to) {
  walk(*this, [&](const Module& module) {
    std::visit(
        [&](auto layer) {
          if constexpr (!std::is_same_v<decltype(layer), std::monostate>) layer->name = to + layer->name.substr(from.size());
        },
        module.layer);
  });
}

Module module_of(Embedding& layer) { return leaf(layer, SlotKind::embedding); }
Module module_of(Linear& layer) { return leaf(layer, SlotKind::linear); }
Module module_of(Norm& layer) { return leaf(layer, std::nullopt); }
Module module_of(Parameter& parameter) { return leaf(parameter, std::nullopt); }

Module module_of(SparseMoe& layer) {
  auto first = leaf(layer.gate_up, SlotKind::experts), second = leaf(layer.down, SlotKind::experts);
  first.owner = wrapper_of(layer.gate_up, !layer.down.adapters.empty());
  second.owner = wrapper_of(layer.down, false);
  Module experts{.path = wrapper_of(layer.down, false), .children = {std::move(first), std::move(second)}};
  return {.path = layer.router.name.substr(0, layer.router.name.rfind('.')),
          .children = {leaf(layer.router, SlotKind::router), std::move(experts)}};
}

std::vector<NamedParameter> Unit::parameters() const {
  auto list = module.parameters();
  append_all(list, module.adapter_parameters());
  return list;
}

TensorList Unit::trained_parameters() const {
  TensorList list;
  for (const auto& parameter : parameters())
    if (parameter.value->defined() && parameter.value->requires_grad()) list.push_back(*parameter.value);
  return list;
}

}  // namespace hone::model
