// The module tree of a model by the names in its files: groups, and layers with parameters as leaves. Loading, saving, tuners,
// sharding and the memory planner all iterate over it. A tree points to the layers and is rebuilt on each call.
#pragma once
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "hone/model/layers.h"
#include "hone/model/moe.h"

namespace hone::model {

struct Module {
  std::string path;  // "model.layers.0.self_attn.q_proj"; "" is the model
  std::variant<std::monostate, Embedding*, Linear*, Norm*, ExpertWeights*, Parameter*> layer = {};  // none: a group
  std::optional<SlotKind> slot = {};  // the kind of layer for tuners; none: they do not adapt it
  std::string owner = {};             // of a slot: what PEFT's names of its matrices begin with, where that is not the path
  bool is_tied = false;               // its weight is another module's, which lists it
  std::vector<Module> children = {};

  std::vector<NamedParameter> parameters() const;  // base weights in Hugging Face's order
  std::vector<Linear*> linears() const;            // those that tuners count as linear layers, in order of depth
  std::vector<AdapterSlot> slots() const;          // all that can carry low-rank updates; of each child linear layers first
  // Adapter tensors, PEFT's names without the "base_model.model." prefix:
  // "model.layers.0.self_attn.q_proj.lora_A.<adapter>.weight".
  std::vector<NamedParameter> adapter_parameters() const;
  void rename(const std::string& from, const std::string& to);  // replaces the prefix of its names and those of its children
};

Module module_of(Embedding& layer);
Module module_of(Linear& layer);  // one that tuners adapt
Module module_of(Norm& layer);
Module module_of(Parameter& parameter);
Module module_of(SparseMoe& layer);

// The unit of gathering, recomputation, offload, calibration, layer sampling and pipeline stages. A unit's index is its position
// in CausalLM::units(), the order of a forward pass.
enum class UnitKind { embedding, block, final_norm, head, encoder };
struct Unit {
  UnitKind kind;
  Module module;

  std::vector<NamedParameter> parameters() const;  // and adapters
  TensorList trained_parameters() const;
};

}  // namespace hone::model
