// The inference engine: batches many requests over one or several replicas of the model. Call `step()` until `idle()`. Only one
// thread may use an engine; a server has a thread for it.
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
  int64_t block_size = 16;      // tokens per block of the cache
  int64_t kv_cache_tokens = 0;  // size of the cache; 0: what gpu_memory_utilization leaves after the weights
  double gpu_memory_utilization =
      0.9;                     // of an accelerator's memory, weights included; on the CPU a quarter of this, of the free memory
  double kv_cache_share = 1;   // of what that leaves on an accelerator; below 1 where training shares the device with the engine
  int64_t max_model_len = 0;   // maximum length of prompt and completion; 0: the model's
  int64_t max_num_seqs = 256;  // per step
  int64_t max_num_batched_tokens = 0;  // token budget of a step (chunked prefill); 0: chosen by the device
  bool enable_prefix_caching = true;   // reuse the KV cache of shared prompt prefixes
  bool use_cuda_graphs = true;         // on devices that support them
  int64_t speculative_tokens = 0;      // draft tokens per step (prompt lookup); 0: no speculation
  ops::KvCacheDtype kv_cache_dtype = ops::KvCacheDtype::plain;  // storage of keys and values
  int quant_bits = 0;                         // 8 or 4: weight-only quantization of linear layers (CPU); 0: none
  bool float8_products = false;               // fp8 GEMMs for prefill and batches (NVIDIA GPUs)
  bool fuse_projections = true;               // where it is faster; false: weights stay the tensors that a trainer updates
  bool enable_return_routed_experts = false;  // outputs have the experts of each token, for router replay in training
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
  // `model` must outlive the engine and is prepared for inference.
  Engine(model::CausalLM& model, std::shared_ptr<const text::Tokenizer> tokenizer, const EngineConfig& config = {});
  // One replica per entry of `models`, each with its own scheduler, cache and thread. A model on the CPU may be listed several
  // times: its replicas share the weights and split the cores.
  Engine(const std::vector<model::CausalLM*>& models, std::shared_ptr<const text::Tokenizer> tokenizer,
         const EngineConfig& config = {});
  ~Engine();

  // Sends the request to the replica with the least work. Throws UserError(bad_data) for a request that can never run: an empty
  // prompt, one beyond the context or the cache, an unknown adapter. max_tokens is limited by the context and the cache.
  RequestId add(Request request);
  // Frees its blocks at once. The next step reports FinishReason::cancelled. Unknown ids are ignored.
  void cancel(RequestId id);

  // With several replicas: waits until one of them has finished a step, and returns the outputs of all since the last call.
  std::vector<RequestOutput> step();
  // Thread-safe: a step() that waits for replicas returns now, the next one at once.
  void wake_step();
  bool idle() const;         // nothing to compute and nothing to report
  bool has_no_work() const;  // a step would do nothing: idle, or asleep with nothing to report
  Stats stats() const;       // of all replicas
  // Duration so far of the longest running step of a replica thread. Thread-safe.
  std::chrono::milliseconds current_step_time() const;
  int64_t max_model_len() const;

  // PEFT folders, usable by name from the next request on. Throw UserError; an adapter in use is not unloaded.
  void load_adapter(const std::string& name, const std::filesystem::path& folder);
  void unload_adapter(const std::string& name);
  std::vector<std::string> adapters() const;

  // The model's weights were changed in place: invalidates the KV cache; running requests are recomputed from their tokens.
  void update_weights(int64_t version);
  // Frees the KV cache until wake(); requests wait and are recomputed.
  void sleep();
  void wake();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Runs all requests on one engine and returns the outputs in their order: for callers without a server.
struct Completion {
  std::vector<text::TokenId> tokens;
  std::string text;
  std::vector<PositionLogprobs> logprobs, prompt_logprobs;
  FinishReason finish = FinishReason::none;
  std::string stop_string, error;
};
using OnText = std::function<void(size_t request, std::string_view piece)>;
using OnDone = std::function<void(size_t request)>;
// A beam search returns its best completion.
std::vector<Completion> generate(Engine& engine, std::vector<Request> requests, const OnText& on_text = {},
                                 const OnDone& on_done = {});

// A separate seed for each of several completions of a request with one seed.
uint64_t seed_of(uint64_t seed, uint64_t index);

}  // namespace hone::engine
