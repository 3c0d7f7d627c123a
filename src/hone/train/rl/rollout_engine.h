// Generates completions: in the training processes with the weights that train, or on servers that receive them.
#pragma once
#include <functional>
#include <memory>
#include <mutex>

#include "hone/data/encode/encoder.h"
#include "hone/data/placed_media.h"
#include "hone/data/sample.h"
#include "hone/engine/engine.h"
#include "hone/model/causal_lm.h"
#include "hone/parallel/collectives/process_group.h"
#include "hone/train/checkpoints/checkpoint_manager.h"
#include "hone/train/distributed/parallel_strategy.h"
#include "hone/train/rl/servers/config.h"
#include "hone/tuner/tuner.h"

namespace hone::train::rl {

struct GeneratedCompletion {
  std::vector<text::TokenId> tokens;   // with the token that ended it
  std::string text;                    // without
  bool truncated = false;              // max_tokens ended it
  std::vector<float> logprobs = {};    // of each token when it was sampled, at the temperature; empty: not requested, or unknown
  std::vector<int64_t> versions = {};  // of the weights that sampled each token; empty: not requested
  std::vector<char> loss_mask = {};    // 0 for tokens that the model did not generate; empty: it generated all
};

// The images, videos and audio of what the model continues: a prompt, or the context of a later turn. Thread-safe.
class PromptMedia {
 public:
  // `context`: token ids with media, whose sources are `sources`.
  PromptMedia(data::Sample context, data::MediaSources sources) : context_(std::move(context)), sources_(std::move(sources)) {}

  // For servers.
  data::MediaPlacement placement() const;
  // For an engine of this process, decoded once. A medium that cannot be decoded is blank, and a warning names it.
  std::shared_ptr<const engine::PromptImages> decoded() const;

 private:
  data::Sample context_;
  data::MediaSources sources_;
  mutable std::once_flag decodes_;
  mutable std::shared_ptr<const engine::PromptImages> decoded_;
};

class RolloutEngine {
 public:
  virtual ~RolloutEngine() = default;

  struct Question {
    const std::vector<text::TokenId>* prompt;
    uint64_t seed;
    int64_t max_tokens = 0;                         // of the completion; 0: as configured
    std::shared_ptr<const PromptMedia> media = {};  // null: only text
  };
  // Starts generation with the present weights, recorded as `version`. Every process calls it with its own prompts; generation
  // may continue in the background.
  virtual void begin(const std::vector<Question>& questions, int64_t version) = 0;
  // The same with the weights of the last begin(): another turn of the same rollout.
  virtual void begin_again(const std::vector<Question>& questions) = 0;
  // The completions of begin(). Throws StopBetweenSteps on all processes when one should stop, FailedBetweenSteps if there will
  // be no completions. Without `may_stop` it waits for them.
  virtual std::vector<GeneratedCompletion> finish(bool may_stop = true) = 0;
  // An engine with the same servers and the present weights that involves no other process, for a separate thread; `is_cancelled`
  // ends its generation with StopBetweenSteps. Every process calls it, the first gets one. This engine must outlive it and is not
  // used until rejoin(), which every process calls, too.
  virtual std::unique_ptr<RolloutEngine> detach(int64_t version, std::function<bool()> is_cancelled);
  virtual void rejoin() {}
  // Metrics of the last completions; the same on all processes.
  virtual std::vector<std::pair<std::string, double>> metrics() const { return {}; }

  std::vector<GeneratedCompletion> write(const std::vector<Question>& questions, int64_t version) {
    begin(questions, version);
    return finish();
  }
};

// Inputs of a rollout engine.
struct RolloutEngineDeps {
  model::CausalLM& model;
  const tuner::Tuned* tuned;  // weights for servers; null: nothing trains
  std::shared_ptr<const data::Encoder> encoder;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  ParallelStrategy& group;                  // of all processes
  parallel::ProcessGroup* peers = nullptr;  // that have the same prompts, since they train on the same rows; null: none
  const WeightFiles* files = nullptr;       // how weights in parts come to the first process; null: `tuned` is
};

struct RolloutEngineConfig {
  engine::SamplingParams sampling;  // without seed, end tokens and the template's stop words
  engine::EngineConfig engine;
  bool sleeps = false;                         // the engine frees its memory between rollouts
  bool logprobs = false;                       // of sampled tokens are kept, and the versions of weights
  std::optional<RolloutServerConfig> servers;  // unset: in the training processes
};

std::unique_ptr<RolloutEngine> make_rollout_engine(const RolloutEngineDeps& deps, const RolloutEngineConfig& config);
// Each in a separate file.
std::unique_ptr<RolloutEngine> make_local_engine(const RolloutEngineDeps& deps, const RolloutEngineConfig& config);
std::unique_ptr<RolloutEngine> make_server_engine(const RolloutEngineDeps& deps, const RolloutEngineConfig& config);
// Splits the prompts, which are equal on all `peers`, among groups of `ranks_per_part` consecutive ones, which generate together;
// each gets all completions.
std::unique_ptr<RolloutEngine> make_peer_engine(std::unique_ptr<RolloutEngine> engine, parallel::ProcessGroup& peers,
                                                int ranks_per_part);

// This peer's range of `count` items that all peers share; it need not divide evenly. Consecutive peers may share a part.
struct PeerPart {
  size_t begin, end;
  PeerPart(size_t begin, size_t end) : begin(begin), end(end) {}
  PeerPart(const parallel::ProcessGroup& peers, size_t count, int ranks_per_part = 1);
};

// A completion, serialized for other processes.
Json completion_json(const GeneratedCompletion& completion);
GeneratedCompletion completion_of(const Json& json);

// As the template ends completions.
engine::SamplingParams rollout_sampling(engine::SamplingParams sampling, const data::Encoder& encoder);

// While this lives, every process has what generation needs of the model.
class GatheredForGeneration {
 public:
  explicit GatheredForGeneration(ParallelStrategy& group) : group_(group) { group_.keep_for_generation(true); }
  ~GatheredForGeneration();
  GatheredForGeneration(const GatheredForGeneration&) = delete;

 private:
  ParallelStrategy& group_;
};

}  // namespace hone::train::rl
