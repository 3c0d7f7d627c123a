#include "hone/model/inference/recurrent_states.h"

#include <algorithm>

#include "hone/base/error.h"

namespace hone::model {

RecurrentStates::RecurrentStates(const DecoderConfig& config, int64_t sequences, at::ScalarType dtype,
                                 const std::vector<at::Device>& layers)
    : sequences_(sequences), states_(layers.size()) {
  HONE_CHECK(config.linear_attention && static_cast<int64_t>(layers.size()) == config.layers,
             "states of {} layers for a model of {}", layers.size(), config.layers);
  const auto& linear = *config.linear_attention;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!config.is_linear(static_cast<int64_t>(i))) continue;
    const auto options = at::TensorOptions(layers[i]);
    // Each position's channels are next to each other, as in the rows that a pass computes.
    states_[i] = {at::empty({sequences, linear.conv_kernel - 1, linear.conv_channels()}, options.dtype(dtype)).transpose(1, 2),
                  at::empty({sequences, linear.value_heads, linear.key_dim, linear.value_dim}, options.dtype(at::kFloat))};
  }
}

int64_t RecurrentStates::bytes_per_layer(const DecoderConfig& config, at::ScalarType dtype) {
  if (!config.linear_attention) return 0;
  const auto& linear = *config.linear_attention;
  return (linear.conv_kernel - 1) * linear.conv_channels() * static_cast<int64_t>(c10::elementSize(dtype)) +
         linear.value_heads * linear.key_dim * linear.value_dim * static_cast<int64_t>(sizeof(float));
}

int64_t RecurrentStates::bytes_per_sequence(const DecoderConfig& config, at::ScalarType dtype) {
  return (config.layers - config.attention_layers()) * bytes_per_layer(config, dtype);
}

int64_t RecurrentStates::fitting(int64_t wanted, double bytes_per_sequence, double memory) {
  if (bytes_per_sequence <= 0) return wanted;
  return std::clamp<int64_t>(static_cast<int64_t>(memory / 2 / bytes_per_sequence), 1, wanted);
}

void RecurrentStates::set_slots(const SequenceSlots& wanted) {
  for (auto slot : wanted.slots) HONE_CHECK(slot >= 0 && slot < sequences_, "slot {} of {}", slot, sequences_);
  HONE_CHECK(wanted.slots.size() == wanted.starts.size(), "{} slots for {} segments", wanted.slots.size(), wanted.starts.size());
  std::vector<int64_t> started;
  for (size_t i = 0; i < wanted.slots.size(); ++i)
    if (wanted.starts[i]) started.push_back(wanted.slots[i]);
  clear(started);
  slots_.clear();
  host_slots_ = wanted.slots;
  const auto slots_s = at::tensor(wanted.slots, at::kLong);
  for (const auto& state : states_)
    if (state.conv_sck.defined() && !find_slots(state.conv_sck.device())) slots_.push_back(slots_s.to(state.conv_sck.device()));
}

void RecurrentStates::bind_slots(const Tensor& slots_s) {
  slots_ = {slots_s};
  host_slots_.assign(static_cast<size_t>(slots_s.size(0)), -1);
}

const Tensor* RecurrentStates::find_slots(at::Device device) const {
  const auto found = std::ranges::find_if(slots_, [&](const Tensor& slots_s) { return slots_s.device() == device; });
  return found == slots_.end() ? nullptr : &*found;
}

ops::StateSlots RecurrentStates::of(int64_t layer) const {
  const auto& state = states_[static_cast<size_t>(layer)];
  return {.state = &state, .slots_s = *find_slots(state.conv_sck.device()), .host_slots = host_slots_};
}

void RecurrentStates::clear(const std::vector<int64_t>& slots) {
  if (slots.empty()) return;
  Tensor slots_s = at::tensor(slots, at::kLong);
  for (auto& state : states_) {
    if (!state.conv_sck.defined()) continue;
    slots_s = slots_s.to(state.conv_sck.device());
    state.conv_sck.index_fill_(0, slots_s, 0);
    state.recurrent_shkv.index_fill_(0, slots_s, 0);
  }
}

void RecurrentStates::copy(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  if (from.empty()) return;
  const auto sources = at::tensor(from, at::kLong), targets = at::tensor(to, at::kLong);
  for (auto& state : states_) {
    if (!state.conv_sck.defined()) continue;
    const auto device = state.conv_sck.device();
    for (auto* slots : {&state.conv_sck, &state.recurrent_shkv})
      slots->index_copy_(0, targets.to(device), slots->index_select(0, sources.to(device)));
  }
}

}  // namespace hone::model
