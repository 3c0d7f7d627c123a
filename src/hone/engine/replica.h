// One replica of the model with its own scheduler and KV cache; an engine has one or several.
#pragma once
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "hone/engine/beam_search.h"
#include "hone/engine/chunk_sampler.h"
#include "hone/engine/engine.h"

namespace hone::engine {

class Replica {
 public:
  // The config has its cache size (kv_cache_size.h); the model is prepared for inference.
  Replica(model::CausalLM& model, std::shared_ptr<const text::Tokenizer> tokenizer, const EngineConfig& config);

  // Checks a request against this replica's limits (validate_request.h). Thread-safe.
  void validate_and_clamp(Request& request) const;

  void add(RequestId id, Request request);  // validated
  void cancel(RequestId id);
  void abandon(RequestId id);  // cancels without an output: the caller reports it
  std::vector<RequestOutput> step();
  bool idle() const;                                                      // nothing to compute and nothing to report
  bool has_pending_outputs() const { return !pending_outputs_.empty(); }  // whether or not it computes
  Stats stats() const;

  void reset_prefix_cache() { blocks_.reset_prefix_cache(); }
  void update_weights(int64_t version);
  void sleep();
  void wake();
  model::CausalLM& model() { return model_; }
  const EngineConfig& config() const { return config_; }

 private:
  void make_cache();
  std::vector<RequestOutput> run_step();
  std::vector<RequestOutput> step_and_wait(const StepBatch& batch);
  std::optional<DecodesInFlight> launch_ahead(const DecodesInFlight& current);
  void take_tokens(DecodesInFlight& step, std::vector<RequestOutput>& outputs);
  void drop_step_in_flight();
  ChunkSampler sampler_of(const StepLogits& logits) const;
  void commit_chunk(const ScheduledChunk& chunk, const RequestOutput& output);
  void advance_searches(std::vector<RequestOutput>& outputs);
  void copy(const ForkCopies& copies);

  model::CausalLM& model_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  const EngineConfig config_;
  BlockManager blocks_;
  Scheduler scheduler_;
  ModelRunner runner_;
  std::unique_ptr<model::PagedKvCache> cache_;  // null while asleep
  std::unordered_map<RequestId, std::unique_ptr<Sequence>> sequences_;
  std::map<RequestId, std::unique_ptr<BeamSearch>> searches_;  // their beams are not among the sequences
  std::vector<RequestOutput> pending_outputs_;                 // outputs from between two steps
  std::optional<DecodesInFlight> in_flight_;                   // its sequences are not updated yet
  Stats totals_;
  RequestId next_beam_;  // beams have separate ids, above those of requests
};

}  // namespace hone::engine
