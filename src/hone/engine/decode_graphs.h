// CUDA graphs of decode steps, captured once per batch size and replayed: the step of a small model is mostly kernel launches.
#pragma once
#include <memory>

#include "hone/model/causal_lm.h"
#include "hone/model/inference/paged_input.h"
#include "hone/model/inference/paged_kv_cache.h"

namespace hone::engine {

struct DecodeGraphsConfig {
  bool enabled = false;
  int64_t max_blocks = 0, block_size = 0;  // of one sequence; tokens per block
  ops::KvCacheDtype kv_cache_dtype = ops::KvCacheDtype::plain;
};

// 1, 2, 4, 8, then multiples of 16: a batch is padded to the next of these sizes.
constexpr int64_t decode_bucket(int64_t sequences) {
  for (int64_t size : {1, 2, 4, 8})
    if (sequences <= size) return size;
  return (sequences + 15) / 16 * 16;
}

class DecodeGraphs {
 public:
  DecodeGraphs(model::CausalLM& model, const DecodeGraphsConfig& config);
  ~DecodeGraphs();

  bool available() const { return impl_ != nullptr; }
  // Hidden states of one new token per sequence, given on the host; undefined if this batch needs a plain forward pass. Valid
  // until the next call. `tokens_t`, if defined, are the tokens on the device, possibly still being computed.
  Tensor hidden(const model::PagedInput& step, model::PagedKvCache& cache, const Tensor& tokens_t = {});
  void clear();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hone::engine
