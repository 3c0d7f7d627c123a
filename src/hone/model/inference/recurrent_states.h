// States of running sequences in the linear attention layers of a model: a slot per sequence, whose size does not depend on its
// length. The slots of a pass are set before it.
#pragma once
#include "hone/model/config.h"
#include "hone/ops/linear_attention/recurrent_state.h"

namespace hone::model {

// The slots of a step's segments.
struct SequenceSlots {
  std::vector<int64_t> slots;  // of each segment, each at most once
  std::vector<bool> starts;    // of each segment: its sequence begins here
};

class RecurrentStates {
 public:
  // Room for `sequences`; a layer's slots are on its device.
  RecurrentStates(const DecoderConfig& config, int64_t sequences, at::ScalarType dtype, const std::vector<at::Device>& layers);

  // Bytes of one slot in a layer, and in all layers; 0 of a model without such layers.
  static int64_t bytes_per_layer(const DecoderConfig& config, at::ScalarType dtype);
  static int64_t bytes_per_sequence(const DecoderConfig& config, at::ScalarType dtype);
  // At most half of the memory is for slots, and the rest for keys and values: how many of the wanted sequences fit.
  static int64_t fitting(int64_t wanted, double bytes_per_sequence, double memory);

  // The slots that the segments of the next forward pass continue; those of sequences that start are cleared.
  void set_slots(const SequenceSlots& slots);
  // The same for a step whose slots are written to this tensor later, int64 on the layers' only device; -1: a row pads the step.
  void bind_slots(const Tensor& slots_s);
  ops::StateSlots of(int64_t layer) const;  // for the model: those of the pass in one of its layers
  void copy(const std::vector<int64_t>& from, const std::vector<int64_t>& to);

 private:
  const Tensor* find_slots(at::Device device) const;
  void clear(const std::vector<int64_t>& slots);

  int64_t sequences_;
  std::vector<ops::RecurrentState> states_;  // by layer; undefined in layers with attention
  TensorList slots_;                         // of the current step, one on each device …
  std::vector<int64_t> host_slots_;          // … and in host memory
};

}  // namespace hone::model
