#include "hone/train/rl/rollout.h"

#include <fmt/ranges.h>

#include <chrono>
#include <cstring>
#include <numeric>

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/base/rng.h"
#include "hone/data/batches/collator.h"
#include "hone/train/evaluation/evaluation_mode.h"
#include "hone/train/loop/stop_signal.h"
#include "hone/train/losses/token_logps.h"
#include "hone/train/rl/gather.h"
#include "hone/train/rl/rewards/model_reward.h"
#include "hone/train/rl/teacher_prompt.h"

namespace hone::train::rl {
namespace {

// Room for a full prompt and its completion, up to the model's context length.
engine::EngineConfig engine_config(const ReinforcementConfig& config, const model::CausalLM& model, int64_t longest_prompt) {
  auto engine = config.engine;
  if (engine.max_model_len > 0) return engine;
  const int64_t context = model.config().max_position_embeddings, completion = config.sampling.max_tokens;
  const int64_t episode = TurnLoop::longest_episode(config.turns, completion);
  const bool ends_at_context = config.turns && config.turns->max_turns <= 0;
  if (longest_prompt + (ends_at_context ? completion : episode) > context)
    log::warn_once(fmt::format("`max_new_tokens` {}{}: the model's context of {} tokens leaves {} after the longest prompt",
                               completion, episode > completion ? fmt::format(", {} with all turns", episode) : "", context,
                               std::max<int64_t>(0, context - longest_prompt)));
  engine.max_model_len = std::min(context, longest_prompt + episode);
  return engine;
}

TurnLoop::LoopDeps loop_deps(const ReinforcementConfig& config, const RolloutWorker::RolloutDeps& deps) {
  return {deps.encoder, deps.strategy, config.sampling.max_tokens,
          engine_config(config, deps.model, deps.longest_prompt).max_model_len, deps.peers};
}

std::unique_ptr<TurnLoop> make_turns(const ReinforcementConfig& config, const RolloutWorker::RolloutDeps& deps) {
  return config.turns ? std::make_unique<TurnLoop>(*config.turns, loop_deps(config, deps)) : nullptr;
}

std::unique_ptr<TurnsAhead> make_turns_ahead(const ReinforcementConfig& config, const RolloutWorker::RolloutDeps& deps) {
  return config.turns && config.async_lag > 0 ? std::make_unique<TurnsAhead>(*config.turns, loop_deps(config, deps)) : nullptr;
}

}  // namespace

RolloutWorker::RolloutWorker(const ReinforcementConfig& config, RolloutDeps parts)
    : config_(config),
      deps_(std::move(parts)),
      turns_(make_turns(config_, deps_)),
      engine_(make_rollout_engine(
          {deps_.model, &deps_.tuned, deps_.encoder, deps_.tokenizer, deps_.processes, deps_.peers, deps_.files},
          {with_stop_words(config_.sampling, turns_.get()), engine_config(config_, deps_.model, deps_.longest_prompt),
           config_.engine_sleeps || deps_.sharded, config_.keep_logprobs, config_.servers})),
      turns_ahead_(make_turns_ahead(config_, deps_)),
      log_(deps_.folder),
      rewards_(make_rewards(config_.rewards)) {
  for (const auto& model : config_.reward_models) rewards_.push_back(make_model_reward(model));
  if (config_.turns && config_.turns->gym_reward) rewards_.push_back(make_gym_reward());
  for (const auto& reward : rewards_) names_.push_back(reward->name());
  if (config_.advantage.weights.empty()) config_.advantage.weights.assign(names_.size(), 1);
}

// This process's part in `group` of the completions to generate, and a seed for each.
RolloutBatch RolloutWorker::lay_out(const SharedPrompts& prompts, int64_t generations, uint64_t number,
                                    const ParallelStrategy& group, std::vector<uint64_t>& seeds) const {
  RolloutBatch draw;
  std::vector<size_t> answers(prompts.size() * static_cast<size_t>(generations));
  std::iota(answers.begin(), answers.end(), size_t{0});
  Rng stream(deps_.seed, number);
  for (size_t answer : own_part(answers, group)) {
    stream.seek(answer);  // per completion, whichever process generates it
    const auto group = answer / static_cast<size_t>(generations);
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
    const bool again = i > 0 && draw.own[i - 1].prompt == prompt;  // completions of one prompt see the same images
    auto images = again ? questions.back().images : prompt->images();
    questions.push_back({.prompt = &prompt->ids, .seed = seeds[i], .images = std::move(images)});
  }
  engine_->begin(questions, version);
  return draw;
}

RolloutBatch RolloutWorker::scored(RolloutBatch draw) {
  const auto began = std::chrono::steady_clock::now();
  ProgressBar::set_active_status(fmt::format("scoring {} completions", draw.own.size()));
  draw.rewards = score(draw.own);
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

void RolloutWorker::set_progress(const TrainingProgress& progress) {
  for (const auto& reward : rewards_) reward->set_progress(progress);
  if (std::exchange(step_, progress.global_step) != progress.global_step) requests_ = 0;
}

// The step makes ids unique in a resumed run as well. Completions of one prompt are next to each other, and an environment may
// have written each its own.
void RolloutWorker::name_request(std::vector<RewardInput>& judged, bool again) {
  auto& last = judged.back();
  const auto number = fmt::format("{}-{}-{}", step_, deps_.processes.rank(), ++requests_);
  last.request_id = "request-" + number;
  last.prompt_id = again ? judged[judged.size() - 2].prompt_id : "prompt-" + number;
}

std::vector<double> RolloutWorker::own_scores(const std::vector<RolloutSample>& own) {
  std::vector<RewardInput> judged;
  const bool rendered = std::ranges::any_of(rewards_, [](const auto& reward) { return reward->reads_rendered(); });
  for (const auto& [prompt, answer, turns, earlier, group] : own) {
    const bool again = !judged.empty() && own[judged.size() - 1].group == group;
    judged.push_back({&prompt->question, answer.text, trained_tokens(answer), {}});
    name_request(judged, again);
    judged.back().truncated = answer.truncated;
    judged.back().turns = turns.count;
    judged.back().token_ids = generated_turns(answer);
    for (const auto& round : earlier) judged.back().rounds.push_back(conversation_of(round));
    if (!turns.before.empty()) judged.back().dialog = &turns.before, judged.back().infos = &turns.infos;
    if (rendered) judged.back().rendered = deps_.tokenizer->decode(prompt->ids) + deps_.tokenizer->decode(answer.tokens);
  }
  std::vector<double> flat(own.size() * rewards_.size());
  for (size_t r = 0; r < rewards_.size(); ++r) {
    auto scores = rewards_[r]->score(judged);
    HONE_CHECK(scores.size() == own.size(), "a reward without a value for some completions");
    for (size_t i = 0; i < scores.size(); ++i) flat[i * rewards_.size() + r] = scores[i];
  }
  return flat;
}

// Rewards may be expensive and need not be deterministic: each peer computes those of a part.
std::vector<double> RolloutWorker::peer_scores(const std::vector<RolloutSample>& own) {
  if (!deps_.peers) return own_scores(own);
  const PeerPart part(*deps_.peers, own.size());
  return own_scores({own.begin() + static_cast<ptrdiff_t>(part.begin), own.begin() + static_cast<ptrdiff_t>(part.end)});
}

// The results of all peers, in the order of the samples.
std::vector<double> RolloutWorker::all_peers(const std::vector<double>& part) const {
  if (!deps_.peers) return part;
  std::vector<double> all;
  for (const auto& bytes : deps_.peers->gather_text({reinterpret_cast<const char*>(part.data()), part.size() * sizeof(double)})) {
    const auto before = all.size();
    all.resize(before + bytes.size() / sizeof(double));
    std::memcpy(all.data() + before, bytes.data(), bytes.size());
  }
  return all;
}

// If a reward fails on one process, all stop before they wait for each other.
RewardTable RolloutWorker::score(const std::vector<RolloutSample>& own) {
  std::vector<double> flat;
  bool stop = false;
  std::optional<UserError> problem;
  try {
    flat = peer_scores(own);
  } catch (const StopBetweenSteps&) {
    stop = true;
  } catch (const UserError& found) {
    problem = found;
  }
  if (deps_.strategy.any(stop)) throw StopBetweenSteps();
  if (deps_.strategy.any(problem.has_value()))
    throw FailedBetweenSteps(
        problem.value_or(UserError(ExitCode::failure, "a reward failed in another process; its own log says why")));
  flat = gather(all_peers(flat), deps_.strategy);
  if (rewards_.empty()) return RewardTable(own.size() * static_cast<size_t>(deps_.strategy.size()));  // a teacher suffices
  RewardTable table;
  for (size_t begin = 0; begin < flat.size(); begin += rewards_.size())
    table.emplace_back(flat.begin() + static_cast<ptrdiff_t>(begin),
                       flat.begin() + static_cast<ptrdiff_t>(begin + rewards_.size()));
  return table;
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

std::vector<PolicyPayload> RolloutWorker::compute_old_logps(const std::vector<data::Batch>& batches, bool remembers) {
  std::vector<PolicyPayload> payloads(batches.size());
  const double temperature = config_.policy.temperature;
  auto logps = [&](model::CausalLM& model, const data::Batch& batch) {
    return policy_logps(model, batch.to(model.device()), temperature, deps_.sequence).to(at::kCPU);
  };
  if (remembers || divergence_in_reward()) {
    EvaluationMode mode(deps_.model);
    for (size_t i = 0; i < batches.size(); ++i) payloads[i].old_logps_t = logps(deps_.model, batches[i]);
  }
  if (!deps_.reference || config_.beta == 0) return payloads;
  for (size_t i = 0; i < batches.size(); ++i)
    deps_.reference->with_reference(deps_.model,
                                    [&](model::CausalLM& model) { payloads[i].ref_logps_t = logps(model, batches[i]); });
  return payloads;
}

// The KL of each completion to the reference, over all processes; of several rounds, that of the last.
std::vector<double> RolloutWorker::divergences(const RolloutBatch& draw, const std::vector<data::Batch>& batches,
                                               const std::vector<PolicyPayload>& payloads) const {
  std::vector<double> own;
  const auto size = draw.own.size() / batches.size();
  for (size_t b = 0; b < batches.size(); ++b) {
    const auto& segments = batches[b].segments;
    auto moved = payloads[b].old_logps_t - payloads[b].ref_logps_t;  // zero without a target
    int64_t last = -1;
    for (const auto& episode : std::span(draw.own).subspan(b * size, size)) {
      last += static_cast<int64_t>(episode.earlier.size()) + 1;
      own.push_back(moved.narrow(0, segments.offsets[static_cast<size_t>(last)], segments.length(last)).sum().item<double>());
    }
  }
  return gather(own, deps_.strategy);
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
  const double answers = deps_.strategy.sum(static_cast<double>(own.size()));
  tokens = sum(lengths);
  return {{"completions/mean_length", tokens / sum(rounds)},
          {"completions/min_length", std::ranges::min(gather(shortest, deps_.strategy))},
          {"completions/max_length", std::ranges::max(gather(longest, deps_.strategy))},
          {"completions/clipped_ratio", sum(truncated) / answers},
          {"completions/empty_ratio", sum(empty) / answers}};
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

// Staleness: the number of updates that the sampling weights lag, averaged over all tokens.
std::vector<std::pair<std::string, double>> RolloutWorker::version_notes(const std::vector<RolloutSample>& own,
                                                                         int64_t step) const {
  double tokens = 0, lag = 0;
  for (const auto* rolled : training_rounds(own))
    for (auto version : rolled->completion.versions) ++tokens, lag += static_cast<double>(step - version);
  tokens = deps_.strategy.sum(tokens);
  lag = deps_.strategy.sum(lag);
  auto notes = engine_->metrics();
  if (tokens > 0) notes.emplace_back("rollout/staleness", lag / tokens);
  return notes;
}

std::vector<data::Batch> RolloutWorker::batches_of(const RolloutBatch& draw, const RolloutShape& shape, bool remembers,
                                                   std::optional<int64_t> step) {
  auto batches = collated(draw, shape.micro_batch);
  const auto size = static_cast<size_t>(shape.micro_batch);
  const bool taught = asks_teacher(draw);
  auto payloads = compute_old_logps(batches, remembers || taught);
  double tokens = 0;
  auto notes = length_notes(draw.own, tokens);
  auto sums = totals(draw.rewards);
  if (divergence_in_reward()) {
    auto moved = divergences(draw, batches, payloads);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] -= config_.beta * moved[i];
    notes.emplace_back("kl", std::accumulate(moved.begin(), moved.end(), 0.0) / static_cast<double>(moved.size()));
  }
  auto advantages = advantages_of(sums, draw.rewards, shape.generations, config_.advantage);
  for (auto& note : reward_metrics(sums, draw.rewards, names_, shape.generations, config_.advantage.scale)) {
    if (step && note.first == "frac_reward_zero_std" && !taught) watch_differences(note.second);
    notes.push_back(std::move(note));
  }
  if (step && config_.log_completions) log_completions(draw, advantages, *step);
  for (const auto& note : turn_metrics(step.has_value())) notes.push_back(note);
  if (step && config_.servers)
    for (auto& note : version_notes(draw.own, *step)) notes.push_back(std::move(note));
  auto own = own_part(advantages, deps_.strategy);
  for (size_t b = 0; b < batches.size(); ++b) {
    const auto episodes = std::span(draw.own).subspan(b * size, size);
    const auto rounds = training_rounds(episodes);
    std::vector<float> gains, truncated;
    for (size_t i = 0; i < size; ++i)  // rounds have the advantage of their episode
      gains.insert(gains.end(), episodes[i].earlier.size() + 1, static_cast<float>(own[b * size + i]));
    for (const auto* round : rounds) truncated.push_back(round->completion.truncated ? 1 : 0);
    payloads[b].advantages_s = at::tensor(gains);
    payloads[b].truncated_s = at::tensor(truncated);
    payloads[b].token_share = static_cast<float>(tokens * shape.updates_share / static_cast<double>(rounds.size()));
    payloads[b].group_size = shape.generations;
    if (config_.keep_logprobs) payloads[b].rollout_logps_t = rollout_logps(batches[b], rounds);
  }
  if (taught) compare_with_teacher(batches, draw, step, payloads, notes);
  for (size_t b = 0; b < batches.size(); ++b) batches[b].payload = std::make_shared<PolicyPayload>(std::move(payloads[b]));
  batches.front().metrics = std::move(notes);
  return batches;
}

// The policy is its own teacher for rows with a privileged prompt.
bool RolloutWorker::asks_teacher(const RolloutBatch& draw) const {
  if (!deps_.teacher) return false;
  const auto shows_more = [](const RolloutSample& each) { return has_teacher_prompt(each.prompt->question); };
  return !config_.teacher->is_policy() || deps_.strategy.sum(std::ranges::any_of(draw.own, shows_more) ? 1 : 0) > 0;
}

// The teacher's log-probabilities of the sampled tokens, used as token advantages or kept for the loss.
void RolloutWorker::compare_with_teacher(const std::vector<data::Batch>& batches, const RolloutBatch& draw,
                                         std::optional<int64_t> step, std::vector<PolicyPayload>& payloads,
                                         std::vector<std::pair<std::string, double>>& notes) {
  const auto& config = *config_.teacher;
  if (step) updates_ = *step - 1;
  const auto size = draw.own.size() / batches.size();
  double divergence = 0, tokens = 0;
  for (size_t b = 0; b < batches.size(); ++b) {
    auto& payload = payloads[b];
    const auto& batch = batches[b];
    payload.teacher_logps_t =
        deps_.teacher->logps(deps_.model, batch, training_rounds(std::span(draw.own).subspan(b * size, size)),
                             {deps_.encoder, config_.policy.temperature, deps_.strategy, deps_.sequence, deps_.peers});
    const auto base_t = payload.advantages_s.index_select(0, sequence_ids(batch.segments, at::kCPU));
    if (!config.in_loss)
      payload.advantages_t = advantages_with_teacher(config, base_t, payload.teacher_logps_t, payload.old_logps_t, updates_);
    const auto gap_t = payload.teacher_logps_t - payload.old_logps_t;  // zero without a target
    divergence += (gap_t.exp() - gap_t - 1).sum().item<double>();
    tokens += static_cast<double>(batch.target_count);
  }
  tokens = deps_.strategy.sum(tokens);
  divergence = deps_.strategy.sum(divergence);
  if (tokens == 0) return;
  notes.emplace_back("teacher_kl", divergence / tokens);
  if (config.reweight) notes.emplace_back("rlsd_lambda", config.reweight->lambda_at(updates_));
}

// Completions of a prompt with equal rewards teach nothing.
void RolloutWorker::watch_differences(double even_groups) {
  count_zero_signal(even_groups >= 1, "the completions of each prompt got the same reward, or none: all advantages are zero");
}

void RolloutWorker::count_zero_signal(bool is_zero, std::string_view meaning) {
  constexpr int64_t kPatience = 3;
  zero_signal_rollouts_ = is_zero ? zero_signal_rollouts_ + 1 : 0;
  if (zero_signal_rollouts_ == kPatience && deps_.strategy.is_main())
    log::warning("in {} rollouts in a row {}; see rewards/… in the log ({})", kPatience, meaning, fmt::join(names_, ", "));
}

void RolloutWorker::log_completions(const RolloutBatch& draw, const std::vector<double>& advantages, int64_t step) {
  std::vector<std::string> prompts, completions, solutions;
  for (const auto& rolled : draw.own) {
    prompts.push_back(before_last_answer(rolled, *deps_.tokenizer));
    completions.push_back(rolled.completion.text);
    const auto& columns = rolled.prompt->question.extra;
    if (columns.is_object() && columns.contains("solution"))
      solutions.push_back(columns["solution"].is_string() ? columns["solution"].get<std::string>() : columns["solution"].dump());
  }
  Json table{{"step", std::vector<std::string>(advantages.size(), std::to_string(step))},
             {"prompt", gather(prompts, deps_.strategy)},
             {"completion", gather(completions, deps_.strategy)}};
  for (size_t r = 0; r < names_.size(); ++r) {
    auto& column = table[names_[r]] = Json::array();
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
