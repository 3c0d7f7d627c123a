// A second set of a model's block weights with the adapters added to them: generation beside the training of LoRA then costs what
// it costs without, its projections are fused, and captured decode steps find them where they were. In the weights' type, so a
// token's probability differs by a rounding from the one that training computes.
#pragma once
#include "hone/model/causal_lm.h"
#include "hone/model/decoder.h"

namespace hone::model {

class MergedWeights {
 public:
  // On a GPU, where blocks carry nothing but LoRA, no weight of theirs trains, and the set is a small part of the memory.
  static bool serves(CausalLM& model);
  explicit MergedWeights(CausalLM& model);

  void refresh();   // with the adapters as they are now
  void exchange();  // the model's weights, adapters and projections for this set's, or back

 private:
  CausalLM& model_;
  std::vector<Block> blocks_;
};

}  // namespace hone::model
