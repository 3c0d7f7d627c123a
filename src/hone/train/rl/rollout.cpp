#include "hone/train/rl/rollout.h"

#include <fmt/ranges.h>

#include <numeric>

#include "hone/base/log.h"
#include "hone/base/rng.h"
#include "hone/data/assemble.h"
#include "hone/train/evaluation_mode.h"
#include "hone/train/rl/gather.h"
#include "hone/train/rl/rewards/model_reward.h"
#include "hone/train/stop_signal.h"

namespace hone::train::rl {
namespace {

// Room for all of a prompt and its answer, as far as the model's context goes.
engine::EngineConfig engine_config(const ReinforcementConfig& config, const model::CausalLM& model, int64_t longest_prompt) {
  auto engine = config.engine;
  if (engine.max_context <= 0) engine.max_context = std::min(model.config().context, longest_prompt + config.sampling.max_tokens);
  return engine;
}

data::Sample sample_of(const RolledAnswer& rolled) {
  data::Sample sample;
  sample.ids = rolled.prompt->ids;
  sample.labels.assign(sample.ids.size(), data::kIgnore);
  for (const auto token : rolled.answer.tokens) sample.ids.push_back(token), sample.labels.push_back(token);
  sample.origin = rolled.prompt->question.origin;
  sample.row = rolled.prompt->row;
  return sample;
}

Json described(const RolledAnswer& rolled) {
  return {{"row", rolled.prompt->row}, {"tokens", rolled.answer.tokens}, {"text", rolled.answer.text}, {"cut", rolled.answer.cut}};
}

}  // namespace

RolloutMaker::RolloutMaker(const ReinforcementConfig& config, Parts parts)
    : config_(config),
      parts_(std::move(parts)),
      writer_(parts_.model, parts_.encoder, parts_.tokenizer, parts_.group, config_.sampling, engine_config(config_, parts_.model, parts_.longest_prompt), config_.engine_sleeps || parts_.sharded),
      log_(parts_.folder),
      rewards_(make_rewards(config_.rewards)) {
  for (const auto& model : config_.reward_models) rewards_.push_back(make_model_reward(model));
  for (const auto& reward : rewards_) names_.push_back(reward->name());
  if (config_.advantage.weights.empty()) config_.advantage.weights.assign(names_.size(), 1);
}

Draw RolloutMaker::draw(const std::vector<std::shared_ptr<const Prompt>>& prompts, int64_t generations, uint64_t number) {
  Draw draw;
  std::vector<AnswerWriter::Question> questions;
  std::vector<size_t> answers(prompts.size() * static_cast<size_t>(generations));
  std::iota(answers.begin(), answers.end(), size_t{0});
  Rng seeds(parts_.seed, number);
  for (size_t answer : own_part(answers, parts_.group)) {
    seeds.seek(answer);  // of the answer's own, whichever process writes it
    draw.own.push_back({prompts[answer / static_cast<size_t>(generations)], {}});
    questions.push_back({&draw.own.back().prompt->ids, seeds.next()});
  }
  auto written = writer_.write(questions);
  for (size_t i = 0; i < written.size(); ++i) draw.own[i].answer = std::move(written[i]);
  draw.rewards = judge(draw.own);
  return draw;
}

std::vector<double> RolloutMaker::own_scores(const std::vector<RolledAnswer>& own) {
  std::vector<JudgedAnswer> judged;
  for (const auto& [prompt, answer] : own) judged.push_back({&prompt->question, answer.text, static_cast<int64_t>(answer.tokens.size())});
  std::vector<double> flat(own.size() * rewards_.size());
  for (size_t r = 0; r < rewards_.size(); ++r) {
    auto scores = rewards_[r]->score(judged);
    HONE_CHECK(scores.size() == own.size(), "a reward that leaves answers out");
    for (size_t i = 0; i < scores.size(); ++i) flat[i * rewards_.size() + r] = scores[i];
  }
  return flat;
}

// A reward that is not given on one process stops all of them, before they wait for each other.
RewardTable RolloutMaker::judge(const std::vector<RolledAnswer>& own) {
  std::vector<double> flat;
  bool stop = false;
  std::optional<UserError> problem;
  try {
    flat = own_scores(own);
  } catch (const StopBetweenSteps&) {
    stop = true;
  } catch (const UserError& found) {
    problem = found;
  }
  if (parts_.group.sum(stop) > 0) throw StopBetweenSteps();
  if (parts_.group.sum(problem.has_value()) > 0)
    throw FailedBetweenSteps(problem.value_or(UserError(ExitCode::failure, "a reward was not given to another process, which says why")));
  flat = gather(flat, parts_.group);
  RewardTable table;
  for (size_t begin = 0; begin < flat.size(); begin += rewards_.size())
    table.emplace_back(flat.begin() + static_cast<ptrdiff_t>(begin), flat.begin() + static_cast<ptrdiff_t>(begin + rewards_.size()));
  return table;
}

std::vector<RolledAnswer> RolloutMaker::everyones(const std::vector<RolledAnswer>& own, const Prompts& prompts) {
  if (parts_.group.size() == 1) return own;
  std::vector<std::string> texts;
  for (const auto& rolled : own) texts.push_back(described(rolled).dump(-1, ' ', false, Json::error_handler_t::replace));
  std::vector<RolledAnswer> all;
  for (const auto& text : gather(texts, parts_.group)) {
    auto described = parse_json(text);
    HONE_CHECK(described.ok(), "an answer that is not understood: {}", described.error());
    auto row = (*described)["row"].get<int64_t>();
    auto prompt = !all.empty() && all.back().prompt->row == row ? all.back().prompt : std::make_shared<const Prompt>(prompts.load(row));
    all.push_back({prompt, {(*described)["tokens"].get<std::vector<text::TokenId>>(), (*described)["text"], (*described)["cut"]}});
  }
  return all;
}

void RolloutMaker::recall_logps(std::vector<data::Batch>& batches, bool remembers) {
  const double temperature = config_.policy.temperature;
  auto logps = [&](model::CausalLM& model, const data::Batch& batch) { return policy_logps(model, batch.to(model.device()), temperature).to(at::kCPU); };
  if (remembers || divergence_in_reward()) {
    EvaluationMode mode(parts_.model);
    for (auto& batch : batches) batch.policy_logps_t = logps(parts_.model, batch);
  }
  if (!parts_.reference || config_.reference_weight == 0) return;
  for (auto& batch : batches)
    parts_.reference->consult(parts_.model, [&](model::CausalLM& model) { batch.reference_logps_t = logps(model, batch); });
}

// How far each answer lies from the reference, of all processes.
std::vector<double> RolloutMaker::divergences(const std::vector<data::Batch>& batches) const {
  std::vector<double> own;
  for (const auto& batch : batches) {
    auto moved = batch.policy_logps_t - batch.reference_logps_t;  // zero where there is no target
    for (int64_t i = 0; i < batch.segments.count(); ++i)
      own.push_back(moved.narrow(0, batch.segments.offsets[static_cast<size_t>(i)], batch.segments.length(i)).sum().item<double>());
  }
  return gather(own, parts_.group);
}

std::vector<std::pair<std::string, double>> RolloutMaker::length_notes(const std::vector<RolledAnswer>& own, double& tokens) const {
  std::vector<double> lengths, cut;
  for (const auto& rolled : own) lengths.push_back(static_cast<double>(rolled.answer.tokens.size())), cut.push_back(rolled.answer.cut ? 1 : 0);
  lengths = gather(lengths, parts_.group);
  cut = gather(cut, parts_.group);
  tokens = std::accumulate(lengths.begin(), lengths.end(), 0.0);
  auto answers = static_cast<double>(lengths.size());
  auto [shortest, longest] = std::ranges::minmax(lengths);
  return {{"completions/mean_length", tokens / answers},
          {"completions/min_length", shortest},
          {"completions/max_length", longest},
          {"completions/clipped_ratio", std::accumulate(cut.begin(), cut.end(), 0.0) / answers}};
}

std::vector<data::Batch> RolloutMaker::batches_of(const Draw& draw, const RolloutShape& shape, bool remembers, std::optional<int64_t> step) {
  std::vector<data::Batch> batches;
  auto size = static_cast<size_t>(shape.micro_batch);
  for (size_t begin = 0; begin < draw.own.size(); begin += size) {
    std::vector<data::SamplePack> packs;
    for (size_t i = begin; i < begin + size; ++i) packs.push_back({sample_of(draw.own[i])});
    batches.push_back(data::assemble(packs, data::Joint::separate));
  }
  recall_logps(batches, remembers);
  double tokens = 0;
  auto notes = length_notes(draw.own, tokens);
  auto sums = totals(draw.rewards);
  if (divergence_in_reward()) {
    auto moved = divergences(batches);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] -= config_.reference_weight * moved[i];
    notes.emplace_back("kl", std::accumulate(moved.begin(), moved.end(), 0.0) / static_cast<double>(moved.size()));
  }
  auto advantages = advantages_of(sums, draw.rewards, shape.generations, config_.advantage);
  for (auto& note : reward_metrics(sums, draw.rewards, names_, shape.generations, config_.advantage.scale)) {
    if (step && note.first == "frac_reward_zero_std") watch_differences(note.second);
    notes.push_back(std::move(note));
  }
  if (step && config_.log_completions) log_completions(draw, advantages, *step);
  auto own = own_part(advantages, parts_.group);
  const double share = tokens * shape.updates_share / static_cast<double>(shape.micro_batch);
  for (size_t i = 0; i < own.size(); ++i)
    batches[i / size].grades[i % size] = {static_cast<float>(own[i]), draw.own[i].answer.cut ? 1.0f : 0.0f, static_cast<float>(share), static_cast<float>(shape.generations)};
  batches.front().notes = std::move(notes);
  return batches;
}

// Answers to a prompt that are all worth the same teach nothing.
void RolloutMaker::watch_differences(double even_groups) {
  constexpr int64_t kPatience = 3;
  rollouts_in_vain_ = even_groups < 1 ? 0 : rollouts_in_vain_ + 1;
  if (rollouts_in_vain_ == kPatience && parts_.group.rank() == 0)
    log::warning("in {} rollouts in a row the answers to each prompt got the same reward, or none: there is nothing to learn from; see rewards/… in the log ({})", kPatience,
                 fmt::join(names_, ", "));
}

void RolloutMaker::log_completions(const Draw& draw, const std::vector<double>& advantages, int64_t step) {
  std::vector<std::string> prompts, completions, solutions;
  for (const auto& [prompt, answer] : draw.own) {
    prompts.push_back(parts_.tokenizer->decode(prompt->ids));
    completions.push_back(answer.text);
    const auto& columns = prompt->question.extra;
    if (columns.is_object() && columns.contains("solution")) solutions.push_back(columns["solution"].is_string() ? columns["solution"].get<std::string>() : columns["solution"].dump());
  }
  Json table{{"step", std::vector<std::string>(advantages.size(), std::to_string(step))}, {"prompt", gather(prompts, parts_.group)}, {"completion", gather(completions, parts_.group)}};
  for (size_t r = 0; r < names_.size(); ++r) {
    auto& column = table[names_[r]] = Json::array();
    for (const auto& row : draw.rewards) column.push_back(row[r]);
  }
  table["advantages"] = advantages;
  if (parts_.group.sum(solutions.size() == draw.own.size() ? 0 : 1) == 0) table["solution"] = gather(solutions, parts_.group);
  if (parts_.group.rank() != 0) return;
  log_.append(table);
}

void RolloutMaker::forget_completions(int64_t step) {
  if (config_.log_completions && parts_.group.rank() == 0) log_.cut_back(step);
}

}  // namespace hone::train::rl
