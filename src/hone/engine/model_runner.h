// Model runner: prepares the inputs of a step's chunks, runs the forward pass, and returns the logits or tokens that the samplers
// need.
#pragma once
#include <c10/core/Event.h>

#include <memory>
#include <span>
#include <vector>

#include "hone/engine/decode_graphs.h"
#include "hone/engine/encoder_cache.h"
#include "hone/engine/routed_experts.h"
#include "hone/engine/scheduler.h"
#include "hone/model/causal_lm.h"
#include "hone/model/inference/paged_input.h"
#include "hone/model/inference/paged_kv_cache.h"

namespace hone::engine {

// For each chunk that reaches the end of its sequence: the token that the device sampled, or the rows of logits to sample from
// (one, and one more per draft token). Other chunks have neither.
struct ChunkLogits {
  text::TokenId sampled = -1;
  float* rows = nullptr;
  int64_t count = 0;
  bool has_nan = false;  // of rows that stay on the device, checked with a request's first token
};
// The logits of a step, chunk by chunk.
struct StepLogits {
  std::vector<ChunkLogits> chunks;
  TensorList on_host;  // float32, own the rows
  int64_t vocabulary = 0;
  std::span<float> row(size_t chunk, int64_t i) const {
    return {chunks[chunk].rows + i * vocabulary, static_cast<size_t>(vocabulary)};
  }
};

// A decode step that was launched asynchronously.
struct DecodesInFlight {
  std::vector<RequestId> rows;
  Tensor sampled_r, on_host_r;  // int64, the second in pinned memory and valid after `done`
  c10::Event done;
};

class ModelRunner {
 public:
  // Sequences are at most `max_blocks` blocks long. `routed`, if given, stores the experts of each token; graphs are disabled
  // then.
  ModelRunner(model::CausalLM& model, const DecodeGraphsConfig& graphs, std::unique_ptr<RoutedExperts> routed = nullptr)
      : model_(model), graphs_(model, graphs), routed_(std::move(routed)), encoder_cache_(model) {}

  // Blocks until the logits are on the host. Fills the prompt log-probabilities of the sequences that request them.
  StepLogits compute(const StepBatch& batch, model::PagedKvCache& cache);
  const RoutedExperts* routed_experts() const { return routed_.get(); }
  void clear_graphs() { graphs_.clear(); }  // after the weights or the cache moved

  // Whether a step of these chunks needs no work of the host between steps: decodes whose tokens the device samples.
  bool can_run_ahead(const StepBatch& batch) const;
  // Launches such a step and returns. With `previous`, a step in flight, the sequences are a subset of its rows, in its order,
  // and continue with the tokens that it samples.
  DecodesInFlight launch(std::span<Sequence* const> sequences, model::PagedKvCache& cache, const DecodesInFlight* previous);

 private:
  using Chunks = std::span<const ScheduledChunk>;
  std::vector<Chunks> split_batch_invariant(const StepBatch& batch) const;
  model::PagedInput prepare_inputs(Chunks chunks, model::PagedKvCache& cache);
  StepLogits run_forward(Chunks chunks, model::PagedKvCache& cache);
  Tensor launched_hidden(model::PagedInput step, model::PagedKvCache& cache, const Tensor& tokens_t);
  // Hidden states of a step's rows: of all of them, or of those that its chunks read, in order.
  struct StepStates {
    Tensor hidden_rh;
    std::vector<int32_t> rows;  // of hidden_rh, which may have padding after them; empty: all
    Tensor at(const std::vector<int32_t>& wanted) const;
  };
  StepLogits compute_logits(Chunks chunks, const StepStates& states, const ops::LoraMapping& adapters);
  void fill_prompt_logprobs(Chunks chunks, const StepStates& states, const ops::LoraMapping& adapters);
  void sample_on_device(Chunks chunks, const Tensor& logits_rv, StepLogits& result);
  static bool samples_on_device(const Sequence& sequence, const Tensor& like);

  model::CausalLM& model_;
  DecodeGraphs graphs_;
  std::unique_ptr<RoutedExperts> routed_;
  EncoderCache encoder_cache_;
};

}  // namespace hone::engine
