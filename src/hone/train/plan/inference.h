// Inference memory of a model: weights, the activations of a step, and the remaining memory for the KV cache and the recurrent
// states of linear attention.
#pragma once
#include "hone/model/config.h"
#include "hone/train/plan/devices.h"

namespace hone::train {

struct InferenceWorkload {
  model::DecoderConfig model;
  double weights = 0;  // bytes of all weights, adapters among them
  double cache_bytes_per_token = 0, state_bytes_per_sequence = 0;
  int64_t max_model_len = 0;  // prompt and completion together
  int64_t max_num_seqs = 0;   // completions generated together
  int64_t step_tokens = 0;    // of a step that reads prompts
  double gpu_memory_utilization = 0.9;
};

struct InferencePlan {
  double weights = 0, activations = 0, cache = 0, states = 0;  // bytes on one device
  int64_t max_num_seqs = 0;                                    // whose recurrent states fit
  int64_t kv_cache_tokens = 0;                                 // that the cache holds
  double needed = 0;                    // with the cache of one sequence of full length: below this nothing starts
  double decode_tokens_per_second = 0;  // of one sequence, bound by reading the weights

  double total() const { return weights + activations + cache + states; }
  double full_sequences(const InferenceWorkload& workload) const {
    return static_cast<double>(kv_cache_tokens) / static_cast<double>(workload.max_model_len);
  }
};

// `devices` shard every layer (tensor parallel).
InferencePlan plan_inference(const InferenceWorkload& workload, int devices, const PlannedDevice& device);
bool fits(const InferencePlan& plan, const InferenceWorkload& workload, const PlannedDevice& device);

}  // namespace hone::train
