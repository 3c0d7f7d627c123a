// Runs the model over a step's slices: gathers their tokens, computes, and hands back what the samplers need.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "hone/engine/decode_graphs.h"
#include "hone/engine/scheduler.h"
#include "hone/model/causal_lm.h"
#include "hone/model/paged_cache.h"

namespace hone::engine {

// For each slice that reaches the end of its sequence: the token a device chose, or the rows of logits to choose from (one, and
// one more for each guessed token). Other slices have neither.
struct SliceLogits {
  text::TokenId chosen = -1;
  float* rows = nullptr;
  int64_t count = 0;
};
struct StepLogits {
  std::vector<SliceLogits> slices;
  TensorList on_host;  // float32, hold the rows
  int64_t vocabulary = 0;
  std::span<float> row(size_t slice, int64_t i) const {
    return {slices[slice].rows + i * vocabulary, static_cast<size_t>(vocabulary)};
  }
};

class Runner {
 public:
  // Sequences are at most `max_blocks` blocks long.
  Runner(model::CausalLM& model, bool graphs, int64_t max_blocks) : model_(model), graphs_(model, graphs, max_blocks) {}

  // Blocks until the logits are on the host. Fills the prompt log-probabilities of the sequences that want them.
  StepLogits compute(const StepBatch& batch, model::PagedCache& cache);
  void forget_graphs() { graphs_.clear(); }  // the weights or the cache moved

 private:
  using Slices = std::span<const Slice>;
  std::vector<Slices> passes(const StepBatch& batch) const;
  model::Input gather(Slices slices, const model::PagedCache& cache, ops::PagedPlan& plan) const;  // on the host
  StepLogits compute_pass(Slices slices, model::PagedCache& cache);
  StepLogits select(Slices slices, const Tensor& hidden_th, const ops::AdapterRows& rows);
  void fill_prompt_logprobs(const Slice& slice, const Tensor& hidden_ch);
  void choose_on_device(Slices slices, const Tensor& logits_rv, StepLogits& result);

  model::CausalLM& model_;
  DecodeGraphs graphs_;
};

}  // namespace hone::engine
