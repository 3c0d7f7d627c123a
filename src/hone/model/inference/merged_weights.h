// A second set of block weights with merged adapters: generation during LoRA training then costs the same as without adapters,
// projections are fused, and captured decode graphs stay valid. In the weights' dtype, so a token's probability differs by
// rounding from that of training.
#pragma once
#include "hone/model/causal_lm.h"
#include "hone/model/decoder.h"

namespace hone::model {

class MergedWeights {
 public:
  // On a GPU, if blocks have only LoRA, none of their weights train, and the set is a small part of the memory.
  static bool supports(CausalLM& model);
  explicit MergedWeights(CausalLM& model);

  void refresh();   // with the adapters as they are now
  void exchange();  // the model's weights, adapters and projections for this set's, or back

 private:
  CausalLM& model_;
  std::vector<Block> blocks_;
};

}  // namespace hone::model
