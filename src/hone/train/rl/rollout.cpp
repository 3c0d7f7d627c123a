#include "hone/train/rl/rollout.h"

#include <fmt/ranges.h>

#include <chrono>
#include <numeric>

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/base/rng.h"
#include "hone/data/batches/collator.h"
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
      log_(deps_.folder),
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

// From the last training rollout, or the last evaluation.
std::vector<std::pair<std::string, double>> RolloutWorker::turn_metrics(bool trains) const {
  if (trains && turns_ahead_) return turns_ahead_->metrics();
  return turns_ ? turns_->metrics() : std::vector<std::pair<std::string, double>>();
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

std::vector<std::pair<std::string, double>> RolloutWorker::length_notes(const std::vector<RolloutSample>& own,
                                                                        double& tokens) const {
  // Processes have the same number of episodes, but not of rounds.
  std::vector<double> lengths, rounds, shortest, longest, truncated, empty;
  for (const auto& rolled : own) {
    std::vector<double> each;
    for (const auto* round : training_rounds({&rolled, 1}))
      each.push_back(static_cast<double>(trained_tokens(round->completion)));
    lengths.push_back(std::accumulate(each.begin(), each.end(), 0.0));
    rounds.push_back(static_cast<double>(each.size()));
    shortest.push_back(std::ranges::min(each));
    longest.push_back(std::ranges::max(each));
    truncated.push_back(rolled.completion.truncated ? 1 : 0);
    empty.push_back(rolled.completion.text.empty() ? 1 : 0);
  }
  const auto sum = [&](const std::vector<double>& values) {
    return deps_.strategy.sum(std::accumulate(values.begin(), values.end(), 0.0));
  };
  const double completions = deps_.strategy.sum(static_cast<double>(own.size()));
  tokens = sum(lengths);
  return {{"completions/mean_length", tokens / sum(rounds)},
          {"completions/min_length", std::ranges::min(gather(shortest, deps_.strategy))},
          {"completions/max_length", std::ranges::max(gather(longest, deps_.strategy))},
          {"completions/clipped_ratio", sum(truncated) / completions},
          {"completions/empty_ratio", sum(empty) / completions}};
}

std::vector<data::Batch> RolloutWorker::collated(const RolloutBatch& draw, int64_t batch_size) const {
  std::vector<data::Batch> batches;
  const auto size = static_cast<size_t>(batch_size);
  for (size_t begin = 0; begin < draw.own.size(); begin += size) {
    std::vector<data::SamplePack> packs;
    const auto episodes = std::span(draw.own).subspan(begin, std::min(size, draw.own.size() - begin));
    for (const auto* round : training_rounds(episodes)) packs.push_back({training_sample(*round)});
    batches.push_back(data::collate(packs, data::PackMask::separate));
  }
  return batches;
}

void RolloutWorker::count_zero_signal(bool is_zero, std::string_view meaning) {
  constexpr int64_t kPatience = 3;
  zero_signal_rollouts_ = is_zero ? zero_signal_rollouts_ + 1 : 0;
  if (zero_signal_rollouts_ == kPatience && deps_.strategy.is_main())
    log::warning("in {} rollouts in a row {}; see rewards/… in the log ({})", kPatience, meaning,
                 fmt::join(scorer_.names(), ", "));
}

void RolloutWorker::log_completions(const RolloutBatch& draw, const std::vector<double>& advantages, int64_t step) {
  std::vector<std::string> prompts, completions, solutions;
  for (const auto& rolled : draw.own) {
    prompts.push_back(before_last_turn(rolled, *deps_.tokenizer));
    completions.push_back(rolled.completion.text);
    const auto& columns = rolled.prompt->question.extra;
    if (columns.is_object() && columns.contains("solution"))
      solutions.push_back(columns["solution"].is_string() ? columns["solution"].get<std::string>() : columns["solution"].dump());
  }
  Json table{{"step", std::vector<std::string>(advantages.size(), std::to_string(step))},
             {"prompt", gather(prompts, deps_.strategy)},
             {"completion", gather(completions, deps_.strategy)}};
  for (size_t r = 0; r < scorer_.names().size(); ++r) {
    auto& column = table[scorer_.names()[r]] = Json::array();
    for (const auto& row : draw.rewards) column.push_back(row[r]);
  }
  table["advantages"] = advantages;
  if (turns_) {
    std::vector<double> turns;
    for (const auto& rolled : draw.own) turns.push_back(static_cast<double>(rolled.turns.count));
    table["num_turns"] = gather(turns, deps_.strategy);
  }
  if (config_.servers && config_.keep_logprobs) {
    std::vector<double> versions;
    for (const auto& rolled : draw.own)
      versions.push_back(rolled.completion.versions.empty() ? -1
                                                            : static_cast<double>(std::ranges::min(rolled.completion.versions)));
    table["weights_version"] = gather(versions, deps_.strategy);
  }
  if (deps_.strategy.sum(solutions.size() == draw.own.size() ? 0 : 1) == 0) table["solution"] = gather(solutions, deps_.strategy);
  if (deps_.strategy.is_main()) log_.append(table);
}

void RolloutWorker::forget_completions(int64_t step) {
  if (config_.log_completions && deps_.strategy.is_main()) log_.truncate_to(step);
}

}  // namespace hone::train::rl
