// Adapters of several runs in one pass: each adds its update to its own rows, with gradients.
#pragma once
#include "hone/model/causal_lm.h"
#include "hone/ops/linear/multi_lora.h"

namespace hone::tinker {

bool has_adapter_of(const std::vector<ops::LoraWeights>& adapters, const ops::LoraMapping& rows);

// During its lifetime, `rows` assign adapters to the rows of a packed pass. All rows must belong to consecutive ranges. An
// adapter "" is the base model alone.
class ActiveAdapters {
 public:
  ActiveAdapters(model::CausalLM& model, const ops::LoraMapping& rows, bool training);
  ~ActiveAdapters();
  ActiveAdapters(const ActiveAdapters&) = delete;

 private:
  model::CausalLM& model_;
  std::vector<model::Linear*> mixed_;  // layers that carry a tuner of this pass
};

}  // namespace hone::tinker
