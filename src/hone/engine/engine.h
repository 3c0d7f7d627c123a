// The engine: requests in, tokens out, many at a time, by one copy of the model or several. Call `step()` until `idle()`. One
// thread uses an engine; a server gives it one.
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hone/engine/request.h"
#include "hone/ops/attention/kv_cache_dtype.h"

namespace hone::model {
class CausalLM;
}

namespace hone::engine {

struct EngineConfig {
  int64_t block_size = 16;              // tokens per block of the cache
  int64_t kv_cache_tokens = 0;          // size of the cache; 0: what gpu_memory_utilization leaves beside the weights
  double gpu_memory_utilization = 0.9;  // of an accelerator's memory, weights included; of the CPU's free memory a quarter of it
  int64_t max_model_len = 0;            // longest prompt and answer together; 0: the model's
  int64_t max_num_seqs = 256;           // generated together
  int64_t max_num_batched_tokens = 0;   // computed in one step, prompts in parts if need be; 0: chosen by the device
  bool enable_prefix_caching = true;    // prompts that begin alike are computed once
  bool use_cuda_graphs = true;          // replay captured decode steps where the device can
  int64_t speculative_tokens = 0;       // guessed from the text so far and checked in one step; 0: none
  ops::KvCacheDtype kv_cache_dtype = ops::KvCacheDtype::plain;  // how keys and values are kept
  int quant_bits = 0;            // 8 or 4: weights of linear layers rounded to that many bits (CPU); 0: as loaded
  bool float8_products = false;  // prompts and batches go through weights of 8-bit floats (NVIDIA GPUs)
  bool fuse_projections = true;  // where reading them is fast; false: they stay the very tensors that somebody trains
};

struct Stats {
  int64_t running = 0, waiting = 0;     // requests
  int64_t blocks = 0, blocks_used = 0;  // of the cache; blocks kept only for their prefix count as free
  int64_t steps = 0, prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0, preemptions = 0;  // since the start
  int64_t num_draft_tokens = 0, accepted_tokens = 0;                                               // speculation
  int64_t weights_version = 0;
  bool asleep = false;
};

class Engine {
 public:
  // `model` must outlive the engine and is switched to inference.
  Engine(model::CausalLM& model, std::shared_ptr<const text::Tokenizer> tokenizer, const EngineConfig& config = {});
  // A replica for each of `models`, with a scheduler and a cache of its own, stepping on a thread of its own. A model on the CPU
  // may stand there several times: its replicas share the weights and split the cores.
  Engine(const std::vector<model::CausalLM*>& models, std::shared_ptr<const text::Tokenizer> tokenizer,
         const EngineConfig& config = {});
  ~Engine();

  // Given to the replica with the least to do. Throws UserError(bad_data) for a request that can never run: an empty prompt, one
  // beyond the context or the cache, an unknown adapter. max_tokens is cut to what the context and the cache leave.
  RequestId add(Request request);
  // Frees its blocks at once. The next step reports FinishReason::cancelled. Unknown ids are ignored.
  void cancel(RequestId id);

  // With several replicas: waits until one of them has made a step, and tells what all of them made since the last call.
  std::vector<RequestOutput> step();
  // Any thread may call: a step() that waits for replicas returns now, the next one at once.
  void wake_step();
  bool idle() const;         // nothing to compute and nothing to report
  bool has_no_work() const;  // a step would do nothing: idle, or asleep with nothing to report
  Stats stats() const;       // of all replicas
  // How long the longest step at work on a replica's own thread has been running. Any thread may ask.
  std::chrono::milliseconds current_step_time() const;
  int64_t max_model_len() const;

  // PEFT folders, usable by name from the next request on. Throw UserError; an adapter in use is not unloaded.
  void load_adapter(const std::string& name, const std::filesystem::path& folder);
  void unload_adapter(const std::string& name);
  std::vector<std::string> adapters() const;

  // The model's weights were changed in place: forget every cached key and value, go on with running requests from their tokens.
  void update_weights(int64_t version);
  // Gives the cache's memory back until wake(); requests wait and are computed again.
  void sleep();
  void wake();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// All requests through one engine, in their order: what a caller without a server wants.
struct Completion {
  std::vector<text::TokenId> tokens;
  std::string text;
  std::vector<PositionLogprobs> logprobs, prompt_logprobs;
  FinishReason finish = FinishReason::none;
  std::string stop_string, error;
};
using OnText = std::function<void(size_t request, std::string_view piece)>;
using OnDone = std::function<void(size_t request)>;
// A beam search gives its best answer.
std::vector<Completion> generate(Engine& engine, std::vector<Request> requests, const OnText& on_text = {},
                                 const OnDone& on_done = {});

// A seed of its own for each of several answers asked for with one seed.
uint64_t seed_of(uint64_t seed, uint64_t index);

}  // namespace hone::engine
