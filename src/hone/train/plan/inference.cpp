#include "hone/train/plan/inference.h"

#include <algorithm>

#include "hone/model/inference/recurrent_states.h"

namespace hone::train {
namespace {

constexpr double kReachedBandwidth = 0.6;

double room_on(const InferenceWorkload& work, const PlannedDevice& device) {
  return std::min(device.memory_gib * 1024 * 1024 * 1024 * work.gpu_memory_utilization, device.usable_bytes());
}

}  // namespace

InferencePlan plan_inference(const InferenceWorkload& work, int devices, const PlannedDevice& device) {
  InferencePlan plan;
  plan.weights = work.weights / devices;
  // The engine's own estimate for sizing its cache: hidden states, the two halves of the MLP and rows of logits.
  plan.activations =
      static_cast<double>(work.step_tokens * (4 * work.model.widest_inner() / devices + 16 * work.model.hidden_size) * 2 +
                          work.max_num_seqs * work.model.vocab_size * 8);
  const double per_token = work.cache_bytes_per_token / devices;
  const double room = std::max(0.0, room_on(work, device) - plan.weights - plan.activations);
  plan.max_num_seqs = model::RecurrentStates::fitting(work.max_num_seqs, work.state_bytes_per_sequence, room);
  plan.states = static_cast<double>(plan.max_num_seqs) * work.state_bytes_per_sequence;
  const auto most = static_cast<double>(plan.max_num_seqs * work.max_model_len) * per_token;
  plan.cache = std::max(0.0, std::min(room - plan.states, most));
  plan.kv_cache_tokens = static_cast<int64_t>(plan.cache / per_token);
  plan.needed =
      plan.weights + plan.activations + work.state_bytes_per_sequence + static_cast<double>(work.max_model_len) * per_token;
  plan.decode_tokens_per_second = kReachedBandwidth * device.memory_gb_per_s * 1e9 / plan.weights;
  return plan;
}

bool fits(const InferencePlan& plan, const InferenceWorkload& work, const PlannedDevice& device) {
  return plan.needed <= room_on(work, device);
}

}  // namespace hone::train
