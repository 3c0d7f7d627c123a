// The experts that routers chose for each token of the KV cache, by its slot, so that tokens found in the prefix cache have
// theirs too. For router replay: a trainer takes the same experts again.
#pragma once
#include <vector>

#include "hone/engine/sequence.h"
#include "hone/model/config.h"

namespace hone::engine {

class RoutedExperts {
 public:
  static int64_t bytes_per_token(const model::DecoderConfig& config);  // of host memory

  RoutedExperts(const model::DecoderConfig& config, int64_t blocks, int64_t block_size);

  // Stores the router logits [T, experts] of each MoE layer for the rows of a forward pass, at the rows' slots.
  void store(const TensorList& router_logits, const Tensor& slot_mapping_t);
  // [computed tokens, layers with experts, k]
  std::vector<int16_t> read(const Sequence& sequence) const;

 private:
  int64_t per_token_, block_size_;
  Tensor experts_sc_;  // int16 [slots, layers * k], on the host
};

}  // namespace hone::engine
