#include "hone/train/rl/rollout.h"

#include <chrono>
#include <numeric>

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/base/rng.h"
#include "hone/train/loop/stop_signal.h"
#include "hone/train/rl/gather.h"

namespace hone::train::rl {
namespace {

// Room for a full prompt and its completion, up to the model's context length.
ContextLimits context_limits(const ReinforcementConfig& config, const RolloutWorker::RolloutDeps& deps) {
  if (const auto given = config.engine.max_model_len; given > 0) return {given, given};
  const int64_t context = deps.model.config().max_position_embeddings, longest_prompt = deps.longest_prompt;
  const int64_t completion = config.sampling.max_tokens;
  const int64_t episode = TurnLoop::longest_episode(config.turns, completion);
  const bool ends_at_context = config.turns && config.turns->max_turns <= 0;
  if (deps.strategy.is_main() && longest_prompt + (ends_at_context ? completion : episode) > context)
    log::warn_once(fmt::format("`max_new_tokens` {}{}: the model's context of {} tokens leaves {} after the longest prompt",
                               completion, episode > completion ? fmt::format(", {} with all turns", episode) : "", context,
                               std::max<int64_t>(0, context - longest_prompt)));
  return TurnLoop::context_limits(config.turns, *deps.encoder, longest_prompt, completion, context);
}

engine::EngineConfig engine_config(const ReinforcementConfig& config, const RolloutWorker::RolloutDeps& deps) {
  auto engine = config.engine;
  engine.max_model_len = context_limits(config, deps).max_model_len;
  return engine;
}

// Servers of other programs get text alone.
ReinforcementConfig with_text_turns(ReinforcementConfig config) {
  const bool teacher_on_servers = config.teacher && !config.teacher->teacher.servers.empty();
  if (config.turns) config.turns->text_only = teacher_on_servers || (config.servers && config.servers->sampling_only);
  return config;
}

TurnLoop::LoopDeps loop_deps(const ReinforcementConfig& config, const RolloutWorker::RolloutDeps& deps) {
  return {deps.encoder, deps.strategy, config.sampling.max_tokens, context_limits(config, deps), deps.peers};
}

std::unique_ptr<TurnLoop> make_turns(const ReinforcementConfig& config, const RolloutWorker::RolloutDeps& deps) {
  return config.turns ? std::make_unique<TurnLoop>(*config.turns, loop_deps(config, deps)) : nullptr;
}

std::unique_ptr<TurnsAhead> make_turns_ahead(const ReinforcementConfig& config, const RolloutWorker::RolloutDeps& deps) {
  return config.turns && config.async_lag > 0 ? std::make_unique<TurnsAhead>(*config.turns, loop_deps(config, deps)) : nullptr;
}

}  // namespace

RolloutWorker::RolloutWorker(const ReinforcementConfig& config, RolloutDeps parts)
    : config_(with_text_turns(config)),
      deps_(std::move(parts)),
      turns_(make_turns(config_, deps_)),
      engine_(make_rollout_engine(
          {deps_.model, &deps_.tuned, deps_.encoder, deps_.tokenizer, deps_.processes, deps_.peers, deps_.files},
          {with_stop_words(config_.sampling, turns_.get()), engine_config(config_, deps_), config_.engine_sleeps || deps_.sharded,
           config_.keep_logprobs, config_.servers})),
      turns_ahead_(make_turns_ahead(config_, deps_)),
      scorer_(config_, {deps_.strategy, deps_.processes, deps_.peers, deps_.tokenizer}) {
  if (config_.advantage.weights.empty()) config_.advantage.weights.assign(scorer_.names().size(), 1);
}

// This process's part in `group` of the completions to generate, and a seed for each.
RolloutBatch RolloutWorker::lay_out(const SharedPrompts& prompts, int64_t generations, uint64_t number,
                                    const ParallelStrategy& group, std::vector<uint64_t>& seeds) const {
  RolloutBatch draw;
  std::vector<size_t> completions(prompts.size() * static_cast<size_t>(generations));
  std::iota(completions.begin(), completions.end(), size_t{0});
  Rng stream(deps_.seed, number);
  for (size_t index : own_part(completions, group)) {
    stream.seek(index);  // per completion, whichever process generates it
    const auto group = index / static_cast<size_t>(generations);
    draw.own.push_back({.prompt = prompts[group], .completion = {}, .group = static_cast<int64_t>(group)});
    seeds.push_back(stream.next());
  }
  return draw;
}

RolloutBatch RolloutWorker::begin(const SharedPrompts& prompts, int64_t generations, uint64_t number, int64_t version) {
  std::vector<uint64_t> seeds;
  auto draw = lay_out(prompts, generations, number, deps_.strategy, seeds);
  std::vector<RolloutEngine::Question> questions;
  for (size_t i = 0; i < seeds.size(); ++i) {
    const auto& prompt = draw.own[i].prompt;
    const bool again = i > 0 && draw.own[i - 1].prompt == prompt;  // completions of one prompt see the same media
    auto media = again ? questions.back().media : prompt->media();
    questions.push_back({.prompt = &prompt->ids, .seed = seeds[i], .media = std::move(media)});
  }
  engine_->begin(questions, version);
  return draw;
}

RolloutBatch RolloutWorker::scored(RolloutBatch draw) {
  const auto began = std::chrono::steady_clock::now();
  ProgressBar::set_active_status(fmt::format("scoring {} completions", draw.own.size()));
  draw.rewards = scorer_.score(draw.own);
  scoring_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return draw;
}

RolloutBatch RolloutWorker::generate(const SharedPrompts& prompts, int64_t generations, uint64_t number, int64_t version) {
  settle(true);
  const auto began = std::chrono::steady_clock::now();
  RolloutBatch draw;
  if (turns_) {
    std::vector<uint64_t> seeds;
    draw = lay_out(prompts, generations, number, deps_.strategy, seeds);
    turns_->run(draw.own, seeds, *engine_, version);
  } else {
    draw = begin(prompts, generations, number, version);
    auto written = engine_->finish();
    for (size_t i = 0; i < written.size(); ++i) draw.own[i].completion = std::move(written[i]);
  }
  generating_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return scored(std::move(draw));
}

void RolloutWorker::generate_ahead(const SharedPrompts& prompts, int64_t generations, uint64_t number, int64_t version) {
  HONE_CHECK(!ahead_, "one rollout is generated ahead");
  ahead_settled_ = false;
  if (!turns_ahead_) {
    ahead_ = begin(prompts, generations, number, version);
    return;
  }
  std::vector<uint64_t> seeds, own_seeds;
  auto all = lay_out(prompts, generations, number, SingleProcess(), seeds);
  turns_ahead_->begin(std::move(all.own), std::move(seeds), *engine_, version);
  ahead_ = lay_out(prompts, generations, number, deps_.strategy, own_seeds);
}

// The engine serves one rollout at a time.
void RolloutWorker::settle(bool may_stop) {
  if (!ahead_ || ahead_settled_) return;
  const auto began = std::chrono::steady_clock::now();
  try {
    if (turns_ahead_) {
      turns_ahead_->finish(ahead_->own, *engine_, may_stop);
    } else {
      auto written = engine_->finish(may_stop);
      for (size_t i = 0; i < written.size(); ++i) ahead_->own[i].completion = std::move(written[i]);
    }
  } catch (...) {
    ahead_.reset();
    throw;
  }
  ahead_settled_ = true;
  generating_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

RolloutBatch RolloutWorker::take_ahead() {
  settle(true);
  auto draw = std::move(*ahead_);
  ahead_.reset();
  return scored(std::move(draw));
}

Json RolloutWorker::ahead_state() {
  try {
    settle(false);
  } catch (const UserError& problem) {
    log::warning("the rollout that was generated ahead is not saved: {}", problem.what());
  } catch (const StopBetweenSteps&) {  // stopped while waiting
    log::warning("the rollout that was generated ahead is not saved; a resumed run generates it again");
  }
  if (!ahead_) return nullptr;
  Json samples = Json::array();
  for (const auto& rolled : ahead_->own) samples.push_back(to_json(rolled));
  return turns_ahead_ ? Json{{"samples", samples}, {"metrics", turns_ahead_->metrics()}} : samples;
}

void RolloutWorker::restore_ahead(const Json& state, const Prompts& prompts) {
  ahead_.emplace();
  if (turns_ahead_ && state.contains("metrics")) turns_ahead_->restore_metrics(state["metrics"]);
  for (const auto& described : state.contains("samples") ? state["samples"] : state)
    ahead_->own.push_back(sample_from(described, ahead_->own.empty() ? nullptr : &ahead_->own.back(), prompts));
  ahead_settled_ = true;
}

std::vector<RolloutSample> RolloutWorker::all_gather_samples(const std::vector<RolloutSample>& own, const Prompts& prompts) {
  if (deps_.strategy.size() == 1) return own;
  std::vector<std::string> texts;
  for (const auto& rolled : own) texts.push_back(to_json(rolled).dump(-1, ' ', false, Json::error_handler_t::replace));
  std::vector<RolloutSample> all;
  for (const auto& text : gather(texts, deps_.strategy)) {
    auto described = parse_json(text);
    HONE_CHECK(described.ok(), "a response that is not understood: {}", described.error());
    all.push_back(sample_from(*described, all.empty() ? nullptr : &all.back(), prompts));
  }
  return all;
}

std::vector<std::pair<std::string, double>> RolloutWorker::turn_metrics(bool trains) const {
  if (trains && turns_ahead_) return turns_ahead_->metrics();
  return turns_ ? turns_->metrics() : std::vector<std::pair<std::string, double>>();
}

}  // namespace hone::train::rl
