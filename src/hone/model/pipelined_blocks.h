// Blocks distributed over ranks in pipeline stages. Every rank makes the same passes with the same input.
#pragma once
#include "hone/device/tensor.h"

namespace hone::model {

class CausalLM;
struct ForwardInput;

class PipelinedBlocks {
 public:
  virtual ~PipelinedBlocks() = default;
  virtual bool is_last() const = 0;  // this rank has the last block, the final norm and the head
  // A pass without gradients: rows after the last block on its rank, undefined on others. `router_logits` as in
  // CausalLM::hidden_states.
  virtual Tensor run(CausalLM& model, const ForwardInput& input, TensorList* router_logits) = 0;
  virtual void broadcast_from_last(Tensor& values) = 0;  // in place, over the stages
};

}  // namespace hone::model
