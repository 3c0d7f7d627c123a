#include "hone/train/distillation/distillation_loader.h"

#include <algorithm>

#include "hone/base/error.h"
#include "hone/base/rng.h"
#include "hone/data/batches/collator.h"
#include "hone/train/distillation/prompt_logprobs.h"
#include "hone/train/losses/distillation.h"
#include "hone/train/rl/gather.h"
#include "hone/train/rl/policy_teacher.h"
#include "hone/train/rl/teacher_prompt.h"

namespace hone::train {
namespace {

constexpr uint64_t kSourceStream = 0x474b44, kCompletionStream = 0x474b4443;  // keep random streams of one seed apart

rl::ContextLimits context_limits(const DistillationConfig& config, const model::CausalLM& model, const rl::Prompts& prompts) {
  if (const auto given = config.engine.max_model_len; given > 0) return {given, given};
  return rl::TurnLoop::context_limits(config.turns, prompts.encoder(), prompts.longest(), config.sampling.max_tokens,
                                      model.config().max_position_embeddings);
}

engine::EngineConfig engine_config(const DistillationConfig& config, const model::CausalLM& model, const rl::Prompts& prompts) {
  auto engine = config.engine;
  engine.max_model_len = context_limits(config, model, prompts).max_model_len;
  return engine;
}

}  // namespace

DistillationLoader::DistillationLoader(const DistillationConfig& config, std::unique_ptr<data::Loader> rows,
                                       std::shared_ptr<const rl::Prompts> prompts, Order order)
    : config_(config), rows_(std::move(rows)), prompts_(std::move(prompts)), order_(order) {
  if (config_.turns)  // servers of other programs get text alone
    config_.turns->text_only = !config_.teacher.servers.empty() || (config_.servers && config_.servers->sampling_only);
  if (!rows_ && batches_per_epoch() == 0)
    throw UserError(ExitCode::bad_data,
                    fmt::format("{} prompts are fewer than the {} of one batch over all processes", prompts_->count(),
                                order_.batch * order_.processes),
                    "lower per_device_train_batch_size, or add rows");
}

void DistillationLoader::begin(Deps deps) {
  deps_.emplace(std::move(deps));
  const bool sleeps = config_.engine_sleeps || deps_->sharded;
  if (config_.turns)
    turns_ = std::make_unique<rl::TurnLoop>(
        *config_.turns, rl::TurnLoop::LoopDeps{deps_->encoder, deps_->strategy, config_.sampling.max_tokens,
                                               context_limits(config_, deps_->student, *prompts_), deps_->peers});
  const auto engine_of = [&](model::CausalLM& model, const tuner::Tuned* tuned) {
    return rl::make_rollout_engine(
        {model, tuned, deps_->encoder, deps_->tokenizer, deps_->processes, deps_->peers, tuned ? deps_->files : nullptr},
        {.sampling = rl::with_stop_words(config_.sampling, turns_.get()),
         .engine = engine_config(config_, model, *prompts_),
         .sleeps = sleeps,
         .servers = tuned ? config_.servers : std::nullopt});
  };
  if (config_.lmbda > 0) student_ = engine_of(deps_->student, &deps_->tuned);
  if (!config_.seq_kd) return;
  if (!deps_->teacher)
    throw UserError(
        ExitCode::usage, "seq_kd lets the teacher generate completions, and it is the student's own base model, or sharded",
        "name another model with `teacher_model` and leave ZeRO-3 and FSDP out, or let it write the rows before the run");
  teacher_ = engine_of(*deps_->teacher, nullptr);
}

// The same on all processes, for all batches of an optimizer step.
bool DistillationLoader::student_generates() const {
  Rng draw(order_.seed ^ kSourceStream, static_cast<uint64_t>(given_ / order_.accumulation));
  return draw.uniform() < config_.lmbda;
}

std::vector<rl::Prompt> DistillationLoader::next_prompts() const {
  std::vector<rl::Prompt> prompts;
  const int64_t epoch = given_ / batches_per_epoch(), batch = given_ % batches_per_epoch();
  const int64_t first = (batch * order_.processes + order_.rank) * order_.batch;
  for (int64_t index = first; index < first + order_.batch; ++index)
    prompts.push_back(order_.shuffle ? prompts_->shuffled(index, epoch, order_.seed) : prompts_->in_file_order(index));
  return prompts;
}

// Only rows whose prompt leaves room for a completion.
std::vector<rl::Prompt> DistillationLoader::prompts_of(const data::Batch& batch) const {
  std::vector<rl::Prompt> prompts;
  for (int64_t row : batch.rows)
    if (auto prompt = prompts_->find(row)) prompts.push_back(std::move(*prompt));
  return prompts;
}

std::vector<rl::RolloutSample> DistillationLoader::complete(std::vector<rl::Prompt> prompts, rl::RolloutEngine& engine) {
  std::vector<rl::RolloutSample> samples;
  std::vector<uint64_t> seeds;
  for (size_t i = 0; i < prompts.size(); ++i) {
    Rng stream(order_.seed ^ kCompletionStream, static_cast<uint64_t>(given_));
    stream.seek(static_cast<uint64_t>(prompts[i].row));  // whichever process has the row
    seeds.push_back(stream.next());
    samples.push_back({std::make_shared<const rl::Prompt>(std::move(prompts[i])), {}});
  }
  if (turns_) {
    turns_->run(samples, seeds, engine, given_);
    return samples;
  }
  std::vector<rl::RolloutEngine::Question> questions;
  for (size_t i = 0; i < samples.size(); ++i)
    questions.push_back({.prompt = &samples[i].prompt->ids, .seed = seeds[i], .media = samples[i].prompt->media()});
  auto completions = engine.write(questions, given_);
  for (size_t i = 0; i < samples.size(); ++i) samples[i].completion = std::move(completions[i]);
  return samples;
}

data::Batch DistillationLoader::generated(std::vector<rl::Prompt> prompts, rl::RolloutEngine& engine) {
  const auto samples = complete(std::move(prompts), engine);
  const auto rounds = rl::training_rounds(samples);
  std::vector<data::SamplePack> packs;
  double tokens = 0, truncated = 0;
  for (const auto* round : rounds) {
    packs.push_back({rl::training_sample(*round)});
    tokens += static_cast<double>(rl::trained_tokens(round->completion));
    truncated += round->completion.truncated ? 1 : 0;
  }
  if (config_.log_completions) log(samples);
  auto batch = data::collate(packs, data::PackMask::separate);
  auto payload = std::make_shared<DistillationPayload>();
  payload->is_generated = true;
  if (std::ranges::any_of(rounds, [](const auto* round) { return rl::has_teacher_prompt(round->prompt->question); })) {
    payload->teacher_batch = rl::teacher_batch(rounds, *deps_->encoder);
    for (const auto* round : rounds) payload->completion_lengths.push_back(static_cast<int64_t>(round->completion.tokens.size()));
  }
  if (config_.teacher.servers.size() > 1)
    for (const auto* round : rounds) payload->tags.push_back(teacher_tag(round->prompt->question, config_.teacher.tag_key));
  batch.payload = std::move(payload);
  const auto count = std::max(1.0, static_cast<double>(rounds.size()));
  batch.metrics = {{"completions/mean_length", tokens / count}, {"completions/clipped_ratio", truncated / count}};
  for (auto& metric : engine.metrics()) batch.metrics.push_back(std::move(metric));
  if (turns_) batch.metrics.insert(batch.metrics.end(), turns_->metrics().begin(), turns_->metrics().end());
  return batch;
}

void DistillationLoader::log(const std::vector<rl::RolloutSample>& samples) {
  std::vector<std::string> asked, completions;
  for (const auto& sample : samples) {
    asked.push_back(rl::before_last_turn(sample, *deps_->tokenizer));
    completions.push_back(sample.completion.text);
  }
  auto& group = deps_->strategy;
  const auto step = std::to_string(given_ / order_.accumulation + 1);
  Json table{{"prompt", rl::gather(asked, group)}, {"completion", rl::gather(completions, group)}};
  table["step"] = std::vector<std::string>(table["prompt"].size(), step);
  if (group.is_main()) rl::CompletionsLog(deps_->folder).append(table);
}

data::Batch DistillationLoader::next() {
  HONE_CHECK(deps_, "completions are requested before there is a model");
  auto* engine = student_generates() ? student_.get() : teacher_.get();
  data::Batch batch;
  std::vector<rl::Prompt> prompts;
  if (rows_) batch = rows_->next();
  if (engine) prompts = rows_ ? prompts_of(batch) : next_prompts();
  // A process without a usable prompt uses its rows, and every process calls the engine, which gathers the model from all.
  if (engine && deps_->strategy.any(!prompts.empty())) {
    const bool has_prompts = !prompts.empty();
    auto made = generated(std::move(prompts), *engine);
    if (has_prompts) batch = std::move(made);
  }
  ++given_;
  return batch;
}

int64_t DistillationLoader::batches_per_epoch() const {
  return rows_ ? rows_->batches_per_epoch() : prompts_->count() / (order_.batch * order_.processes);
}

double DistillationLoader::epoch() const {
  return rows_ ? rows_->epoch() : static_cast<double>(given_) / static_cast<double>(batches_per_epoch());
}

Json DistillationLoader::state() const {
  Json state{{"given", given_}, {"prompts", order_.batch * order_.processes}};
  if (rows_) state["rows"] = rows_->state();
  return state;
}

void DistillationLoader::restore(const Json& state) {
  given_ = state.at("given");
  if (rows_ && state.contains("rows")) rows_->restore(state["rows"]);
  if (deps_ && config_.log_completions && deps_->strategy.is_main())
    rl::CompletionsLog(deps_->folder).truncate_to(given_ / order_.accumulation + 1);
}

bool DistillationLoader::can_reshard_state(const Json& state) const {
  return rows_ ? state.contains("rows") && rows_->can_reshard_state(state["rows"])
               : state.value("prompts", int64_t{0}) == order_.batch * order_.processes;
}

}  // namespace hone::train
