// Completions in the training process, with the weights that train. Tensor parallel ranks generate the same completions together,
// each with its shards: equal logits, equal seeds and equal schedules sample equal tokens.
#include <unordered_map>

#include "hone/base/progress.h"
#include "hone/engine/kv_cache_size.h"
#include "hone/model/inference/merged_weights.h"
#include "hone/train/evaluation/evaluation_mode.h"
#include "hone/train/loop/stop_signal.h"
#include "hone/train/rl/rollout_engine.h"

namespace hone::train::rl {
namespace {

// The model computes with merged weights, if any, during the lifetime of this object.
class InMergedWeights {
 public:
  explicit InMergedWeights(model::MergedWeights* weights) : weights_(weights) {
    if (weights_) weights_->exchange();
  }
  ~InMergedWeights() {
    if (weights_) weights_->exchange();
  }
  InMergedWeights(const InMergedWeights&) = delete;

 private:
  model::MergedWeights* weights_;
};

class LocalEngine final : public RolloutEngine {
 public:
  LocalEngine(const RolloutEngineDeps& deps, const RolloutEngineConfig& config)
      : deps_(deps),
        config_(config),
        ranks_(deps.group.generation_group()),
        sampling_(rollout_sampling(config.sampling, *deps.encoder)) {
    config_.engine.fuse_projections = false;
    if (ranks_) config_.engine.use_cuda_graphs = false;  // collectives are not captured
    if (!config_.logprobs) return;
    sampling_.logprobs = 0;
    sampling_.logprobs_temperature = sampling_.temperature;
  }

  void begin(const std::vector<Question>& questions, int64_t version) override { generate(questions, version); }
  void begin_again(const std::vector<Question>& questions) override { generate(questions, std::nullopt); }
  std::vector<GeneratedCompletion> finish(bool) override { return std::move(completions_); }

 private:
  // `version`: of changed weights.
  void generate(const std::vector<Question>& questions, std::optional<int64_t> version) {
    completions_.assign(questions.size(), {});
    bool written = true;
    {
      const GatheredForGeneration held(deps_.group);
      EvaluationMode mode(deps_.model);
      const InMergedWeights merged(merged_weights(version.has_value()));
      if (!engine_) engine_ = std::make_unique<engine::Engine>(deps_.model, deps_.tokenizer, engine_config());
      engine_->wake();
      if (version) engine_->update_weights(*version);
      written = run(questions);
      if (config_.sleeps) engine_->sleep();
    }
    if (config_.sleeps) merged_.reset();  // graphs that include it are removed too
    if (deps_.group.sum(written ? 0 : 1) > 0) throw StopBetweenSteps();
  }

  // Tensor parallel ranks schedule alike, so their caches have the size that fits the fullest device. If one has no room, all
  // of them fail.
  engine::EngineConfig engine_config() {
    if (!ranks_) return config_.engine;
    auto config = config_.engine;
    std::exception_ptr problem;
    try {
      config = engine::resolve_engine_config(config, deps_.model);
    } catch (...) {
      problem = std::current_exception();
    }
    config.kv_cache_tokens = agreed(problem ? 0 : config.kv_cache_tokens, parallel::ReduceOp::min);
    if (problem) std::rethrow_exception(problem);
    if (config.kv_cache_tokens == 0)
      throw UserError(ExitCode::out_of_memory, "another process has no memory for the KV cache; its own log says why");
    return config;
  }

  int64_t agreed(int64_t value, parallel::ReduceOp op) {
    auto all = at::tensor({value}, at::kLong);
    if (ranks_) ranks_->all_reduce(all, op)->wait();
    return all.item<int64_t>();
  }

  // Null where generation computes with the adapters as they are.
  model::MergedWeights* merged_weights(bool changed) {
    const bool is_new = !merged_ && !engine_sees_adapters_ && model::MergedWeights::supports(deps_.model);
    if (is_new) merged_ = std::make_unique<model::MergedWeights>(deps_.model);
    engine_sees_adapters_ = !merged_;
    if (merged_ && (is_new || changed)) merged_->refresh();
    return merged_.get();
  }

  engine::Request request_for(const Question& question) const {
    engine::Request request{.prompt = *question.prompt, .sampling = sampling_};
    request.sampling.seed = question.seed;
    if (question.max_tokens > 0) request.sampling.max_tokens = question.max_tokens;
    if (question.media) request.images = question.media->decoded();
    return request;
  }

  // Runs until all are complete; false if interrupted.
  bool run(const std::vector<Question>& questions) {
    std::unordered_map<engine::RequestId, size_t> running;
    for (size_t i = 0; i < questions.size(); ++i) running[engine_->add(request_for(questions[i]))] = i;
    constexpr int kStepsBetweenStops = 8;  // a collective costs as much as a layer of a small model
    bool leaving = false;
    for (int steps = 0; !running.empty(); ++steps) {
      const bool asks = !leaving && (!ranks_ || steps % kStepsBetweenStops == 0);
      if (asks && agreed(StopSignal::requested() != Stop::none, parallel::ReduceOp::max) > 0) {
        leaving = true;
        for (const auto& [id, index] : running) engine_->cancel(id);
      }
      for (auto& output : engine_->step()) {
        auto found = running.find(output.id);
        if (found == running.end()) continue;
        take(output, completions_[found->second]);
        if (output.finish != engine::FinishReason::none) running.erase(found);
      }
      ProgressBar::set_active_status(fmt::format("generating {}/{}", questions.size() - running.size(), questions.size()));
    }
    return !leaving;
  }

  void take(const engine::RequestOutput& output, GeneratedCompletion& completion) const {
    completion.tokens.insert(completion.tokens.end(), output.tokens.begin(), output.tokens.end());
    completion.text += output.text;
    for (const auto& position : output.logprobs) completion.logprobs.push_back(position.chosen.logprob);
    if (output.finish == engine::FinishReason::error)
      throw UserError(output.model_broken ? ExitCode::non_finite : ExitCode::failure, "generation failed: " + output.error,
                      output.model_broken ? "resume from an earlier checkpoint with a lower `learning_rate`" : "");
    bool at_end = output.stop_token >= 0 && (completion.tokens.empty() || completion.tokens.back() != output.stop_token);
    if (at_end) completion.tokens.push_back(output.stop_token);
    if (at_end && output.eos_logprob) completion.logprobs.push_back(*output.eos_logprob);
    completion.truncated = output.finish == engine::FinishReason::length;
    if (config_.logprobs) completion.versions.resize(completion.tokens.size(), output.weights_version);
  }

  RolloutEngineDeps deps_;
  RolloutEngineConfig config_;
  parallel::ProcessGroup* ranks_;  // that generate together; null: this process alone
  engine::SamplingParams sampling_;
  std::unique_ptr<model::MergedWeights> merged_;
  bool engine_sees_adapters_ = false;
  std::unique_ptr<engine::Engine> engine_;
  std::vector<GeneratedCompletion> completions_;
};

}  // namespace

std::unique_ptr<RolloutEngine> make_local_engine(const RolloutEngineDeps& deps, const RolloutEngineConfig& config) {
  return std::make_unique<LocalEngine>(deps, config);
}

}  // namespace hone::train::rl
