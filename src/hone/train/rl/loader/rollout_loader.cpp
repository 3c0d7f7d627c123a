#include "hone/train/rl/loader/rollout_loader.h"

#include <algorithm>
#include <numeric>

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/base/rng.h"
#include "hone/base/strings/counted.h"
#include "hone/train/loop/stop_signal.h"
#include "hone/train/rl/loader/batch_media.h"
#include "hone/train/rl/loader/batch_state.h"
#include "hone/train/rl/loader/evaluation_rollouts.h"
#include "hone/train/rl/teacher_prompt.h"

namespace hone::train::rl {
namespace {

constexpr uint64_t kSpareOrder = 0x5350, kCompletions = 0x414e53, kPpoOrder = 0x50504f;  // keep random streams of one seed apart

UserError other_rollouts(bool is_ppo) {
  return UserError(ExitCode::bad_checkpoint,
                   "the checkpoint was written in the middle of a rollout with other sizes or another number of passes",
                   fmt::format("resume with the batch sizes, {} and the number of processes of the first run, or with "
                               "`ignore_data_skip` true",
                               is_ppo ? "the `num_ppo_epochs`" : "the `num_generations` and `num_iterations`"));
}

}  // namespace

RolloutLoader::RolloutLoader(const ReinforcementConfig& config, const RolloutBatching& geometry,
                             std::shared_ptr<const Prompts> prompts, uint64_t seed, bool shuffle)
    : config_(config),
      batching_(geometry),
      prompts_(std::move(prompts)),
      seed_(seed),
      shuffle_(shuffle),
      longest_prompt_(prompts_->longest()) {
  if (config_.ppo) position_.experience.kl_coef = config_.ppo->experience.kl_coef;
  if (rollouts_per_epoch() == 0)
    throw UserError(ExitCode::bad_data,
                    fmt::format("{} prompts are fewer than the {} of one rollout ({} completions, {} per prompt)",
                                prompts_->count(), batching_.prompts(), batching_.num_completions(), batching_.generations),
                    "lower per_device_train_batch_size or generation_batch_size, raise num_generations, or add rows");
  const bool compares = config_.teacher && (config_.teacher->reweight || config_.teacher->in_loss);
  if (compares && config_.teacher->is_policy() && !has_teacher_prompt(prompts_->in_file_order(0).question))
    throw UserError(ExitCode::bad_data,
                    "the loss needs a teacher, but there is none: the first row has neither teacher_prompt nor teacher_images",
                    "add one of these columns, which the policy reads as its own teacher, or name another model as the teacher");
}

void RolloutLoader::begin(RolloutWorker::RolloutDeps parts, const ScoringModels& models) {
  worker_ = std::make_unique<RolloutWorker>(config_, std::move(parts));
  report_ = std::make_unique<RolloutReport>(*worker_);
  if (config_.ppo)
    ppo_batches_ = std::make_unique<PpoBatches>(*worker_, *report_, models);
  else
    policy_batches_ = std::make_unique<PolicyBatches>(*worker_, *report_, models);
}

std::unique_ptr<data::Loader> RolloutLoader::evaluation(std::shared_ptr<const Prompts> prompts, int64_t batch) {
  int64_t processes = batching_.processes;
  if (config_.batching.whole_groups) processes = 1;
  while (batch * processes % config_.eval_generations != 0) ++batch;
  MakeEvaluationBatch make;
  if (config_.ppo)
    make = [this, experience = position_.experience](const RolloutBatch& draw, const RolloutShape& shape) {
      auto state = experience;  // evaluations do not change the state of training
      return ppo_batches_->make(draw, shape, std::nullopt, std::nullopt, state).front();
    };
  else
    make = [this](const RolloutBatch& draw, const RolloutShape& shape) {
      return policy_batches_->make(draw, shape, /*remembers=*/false, std::nullopt).front();
    };
  return evaluation_rollouts(*worker_, std::move(prompts), config_.eval_generations, batch, std::move(make));
}

data::Batch RolloutLoader::next() {
  HONE_CHECK(worker_, "completions are requested before there is a model");
  if (consumed() % batches_per_epoch() % batching_.accumulation == 0) {
    update_start_ = position_;
    if (demonstrations_) demonstrations_->begin_update();
  }
  worker_->set_progress({updates(), epoch()});
  try {
    if (used_up()) make_rollout();
  } catch (const StopBetweenSteps&) {
    position_ = update_start_;
    if (demonstrations_) demonstrations_->rewind();
    throw;
  }
  const auto step = updates();
  auto batch = position_.batches[next_batch()];
  batch.metrics.clear();
  if (position_.given++ == 0) batch.metrics = position_.batches.front().metrics;  // about the full rollout
  worker_->set_progress({updates(), epoch()});                                    // of an evaluation that may follow
  return demonstrations_ ? demonstrations_->with_rows(std::move(batch), step) : batch;
}

// Before the next batch. An epoch's last update may have fewer batches.
int64_t RolloutLoader::updates() const {
  const auto updates_of = [&](int64_t batches) { return (batches + batching_.accumulation - 1) / batching_.accumulation; };
  return consumed() / batches_per_epoch() * updates_of(batches_per_epoch()) +
         consumed() % batches_per_epoch() / batching_.accumulation;
}

void RolloutLoader::add_demonstrations(std::unique_ptr<data::Loader> rows) {
  demonstrations_ = std::make_unique<Demonstrations>(*config_.demonstrations, std::move(rows));
}

// PPO shuffles the batches of a rollout in each pass, so that updates combine them differently.
size_t RolloutLoader::next_batch() const {
  const auto index = static_cast<size_t>(position_.given % batching_.steps_per_generation);
  return config_.ppo ? ppo_order(position_.rollout, position_.given / batching_.steps_per_generation)[index] : index;
}

std::vector<size_t> RolloutLoader::ppo_order(int64_t rollout, int64_t pass) const {
  std::vector<size_t> order(static_cast<size_t>(batching_.steps_per_generation));
  std::iota(order.begin(), order.end(), size_t{0});
  Rng(seed_ ^ kPpoOrder, static_cast<uint64_t>(rollout * batching_.iterations + pass)).shuffle(order);
  return order;
}

double RolloutLoader::epoch() const { return static_cast<double>(consumed()) / static_cast<double>(batches_per_epoch()); }

std::vector<std::shared_ptr<const Prompt>> RolloutLoader::prompts_of(int64_t rollout) const {
  std::vector<std::shared_ptr<const Prompt>> prompts;
  int64_t epoch = rollout / rollouts_per_epoch(), first = rollout % rollouts_per_epoch() * batching_.prompts();
  for (int64_t i = first; i < first + batching_.prompts(); ++i)
    prompts.push_back(
        std::make_shared<const Prompt>(shuffle_ ? prompts_->shuffled(i, epoch, seed_) : prompts_->in_file_order(i)));
  return prompts;
}

std::vector<std::shared_ptr<const Prompt>> RolloutLoader::spare_prompts() {
  std::vector<std::shared_ptr<const Prompt>> prompts;
  for (int64_t i = 0; i < batching_.prompts(); ++i, ++position_.spare)
    prompts.push_back(std::make_shared<const Prompt>(
        prompts_->shuffled(position_.spare, position_.spare / prompts_->count(), seed_ ^ kSpareOrder)));
  return prompts;
}

// Groups with equal rewards are replaced by groups of other prompts, if a limited number of draws yields enough.
RolloutBatch RolloutLoader::draw_uneven() {
  const auto wanted = static_cast<size_t>(batching_.num_completions());
  RolloutBatch first, uneven;
  for (int64_t draws = 0; draws <= config_.max_resample_times; ++draws) {
    auto draw = worker_->generate(draws == 0 ? prompts_of(position_.rollout) : spare_prompts(), batching_.generations,
                                  kCompletions + static_cast<uint64_t>(position_.draws++), step_of_next_rollout());
    auto even = zero_variance_groups(worker_->totals(draw.rewards), batching_.generations);
    auto all = worker_->all_gather_samples(draw.own, *prompts_);
    for (size_t i = 0; i < all.size(); ++i)
      if (!even[i]) uneven.own.push_back(all[i]), uneven.rewards.push_back(draw.rewards[i]);
    if (uneven.own.size() >= wanted) {
      uneven.own.resize(wanted);
      uneven.rewards.resize(wanted);
      uneven.own = own_part(uneven.own, worker_->group());
      return uneven;
    }
    if (draws == 0) first = std::move(draw);
  }
  if (worker_->group().is_main())
    log::warning("after {}, too few groups have different rewards; the first draw is used unchanged",
                 counted(config_.max_resample_times, "resample"));
  return first;
}

// Takes the completions requested while the previous rollout trained, then requests those of the next rollout.
RolloutBatch RolloutLoader::draw_ahead() {
  const auto ask = [&](int64_t rollout) {
    worker_->generate_ahead(prompts_of(rollout), batching_.generations, kCompletions + static_cast<uint64_t>(rollout),
                            step_of_next_rollout());
  };
  if (!worker_->has_ahead()) ask(position_.rollout);
  auto draw = worker_->take_ahead();
  ask(position_.rollout + 1);
  position_.draws = position_.rollout + 1;
  return draw;
}

RolloutBatch RolloutLoader::draw() {
  if (config_.async_lag > 0) return draw_ahead();
  if (config_.dynamic_sample) return draw_uneven();
  return worker_->generate(prompts_of(position_.rollout), batching_.generations,
                           kCompletions + static_cast<uint64_t>(position_.draws++), step_of_next_rollout());
}

void RolloutLoader::make_rollout() {
  auto before = position_;
  try {
    auto made = draw();
    RolloutShape shape{batching_.generations, batching_.micro_batch, batching_.steps_per_generation,
                       1.0 / static_cast<double>(batching_.processes * batching_.accumulation)};
    position_.batches = config_.ppo ? ppo_batches_->make(made, shape, step_of_next_rollout(),
                                                         ppo_order(position_.rollout + 1, 0).front(), position_.experience)
                                    : policy_batches_->make(made, shape, batching_.is_off_policy(), step_of_next_rollout());
    position_.media = media_of_batches(made, position_.batches.size());
    ++position_.rollout;
    position_.given = 0;
  } catch (...) {
    position_ = std::move(before);
    throw;
  }
}

Json RolloutLoader::state() const {
  Json state{{"rollout", position_.rollout},
             {"draws", position_.draws},
             {"spare", position_.spare},
             {"given", position_.given},
             {"answers", batching_.num_completions()},
             {"generations", batching_.generations},
             {"batches_of_rollout", batching_.batches()},
             {"processes", batching_.processes},
             {"batches", Json::array()}};
  if (config_.ppo) state["experience"] = position_.experience.to_json();
  if (!used_up()) {
    for (const auto& batch : position_.batches) state["batches"].push_back(batch_to_json(batch));
    if (std::ranges::any_of(position_.media, [](const auto& own) { return own != nullptr; }))
      for (const auto& own : position_.media) state["media"].push_back(own ? *own : Json());
  }
  if (demonstrations_) state["demonstrations"] = demonstrations_->state();
  if (worker_ && worker_->has_ahead()) state["ahead"] = worker_->ahead_state();
  return state;
}

void RolloutLoader::restore(const Json& state) {
  HONE_CHECK(worker_, "a position is restored before there is a model");
  position_ = {state.at("rollout"), state.at("draws"), state.at("spare"), state.at("given"), {}, {}, position_.experience};
  if (state.contains("experience")) position_.experience = ExperienceState::from_json(state["experience"]);
  const auto media = state.find("media");
  for (const auto& batch : state.at("batches")) {
    const auto index = position_.batches.size();
    position_.batches.push_back(batch_from_json(batch));
    position_.media.push_back(media != state.end() && index < media->size() ? batch_media_from(media->at(index)) : nullptr);
    const auto& own = position_.media.back();
    if (prompts_->has_media() || own) restore_media(position_.batches.back(), own, *prompts_);
  }
  regroup(state);
  if (demonstrations_ && state.contains("demonstrations")) demonstrations_->restore(state["demonstrations"]);
  if (const auto ahead = state.find("ahead"); config_.async_lag > 0 && ahead != state.end() && !ahead->is_null())
    worker_->restore_ahead(*ahead, *prompts_);
  report_->forget_completions(step_of_next_rollout());
}

// The checkpoint's rollouts may have another size.
void RolloutLoader::regroup(const Json& state) {
  bool same = state.at("answers") == batching_.num_completions() && state.at("generations") == batching_.generations &&
              state.at("batches_of_rollout") == batching_.batches();
  bool same_processes = state.at("processes") == batching_.processes;  // each has its own part of a rollout
  if (same && (position_.batches.empty() ||
               (same_processes && position_.batches.size() == static_cast<size_t>(batching_.steps_per_generation))))
    return;
  if (!position_.batches.empty()) throw other_rollouts(config_.ppo.has_value());
  // Between rollouts: the same number of prompts is consumed.
  int64_t prompts = position_.rollout * (state.at("answers").get<int64_t>() / state.at("generations").get<int64_t>());
  position_.rollout = prompts / batching_.prompts();
  position_.given = position_.rollout > 0 ? batching_.batches() : 0;
}

}  // namespace hone::train::rl
