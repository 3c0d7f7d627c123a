#include "hone/train/plan/inference.h"

#include <algorithm>

#include "hone/model/inference/recurrent_states.h"
#include "hone/model/memory/delta_net_memory.h"

namespace hone::train {
namespace {

constexpr double kReachedBandwidth = 0.6;

double room_on(const InferenceWorkload& work, const PlannedDevice& device) {
  return std::min(device.memory_gib * 1024 * 1024 * 1024 * work.gpu_memory_utilization, device.usable_bytes());
}

// The engine's own estimate for sizing its cache: hidden states, the two halves of the MLP, rows of logits and linear attention.
double activations_of(const InferenceWorkload& work, int devices, int64_t sequences) {
  const int64_t of_token = 2 * (4 * work.model.widest_inner() / devices + 16 * work.model.hidden_size) +
                           model::delta_net_bytes_per_token(work.model),
                of_sequence = 8 * work.model.vocab_size + model::delta_net_bytes_per_sequence(work.model);
  return static_cast<double>(work.step_tokens * of_token + sequences * of_sequence);
}

// The number of concurrent sequences whose recurrent states fit.
int64_t fitting_sequences(const InferenceWorkload& work, double room) {
  if (work.state_bytes_per_sequence <= 0) return work.max_num_seqs;
  const auto working = static_cast<double>(model::delta_net_bytes_per_sequence(work.model));
  return model::RecurrentStates::fitting(work.max_num_seqs, work.state_bytes_per_sequence + working, room);
}

}  // namespace

InferencePlan plan_inference(const InferenceWorkload& work, int devices, const PlannedDevice& device) {
  InferencePlan plan;
  plan.weights = work.weights / devices;
  const double per_token = work.cache_bytes_per_token / devices, free = room_on(work, device) - plan.weights;
  plan.max_num_seqs = fitting_sequences(work, free - activations_of(work, devices, 1));
  plan.activations = activations_of(work, devices, plan.max_num_seqs);
  const double room = std::max(0.0, free - plan.activations);
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
