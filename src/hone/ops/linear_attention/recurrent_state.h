// The state of generated sequences in a layer of linear attention: one slot per sequence, of constant size.
#pragma once
#include <span>

#include "hone/device/tensor.h"

namespace hone::ops {

struct RecurrentState {
  Tensor conv_sck;        // [slots, channels, kernel - 1]: the last inputs of the convolution, the newest last
  Tensor recurrent_shkv;  // float32 [slots, value heads, key_dim, value_dim]
};

// The slots of a pass's segments in one layer. Those of sequences that begin hold zeros.
struct StateSlots {
  const RecurrentState* state = nullptr;  // its tensors are updated in place
  Tensor slots_s;                         // int64, on their device: of each segment, each at most once
  std::span<const int64_t> host_slots;    // the same in host memory, until the next pass
};

}  // namespace hone::ops
