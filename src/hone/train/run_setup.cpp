#include "hone/train/run_setup.h"

#include <algorithm>

#include "hone/base/log.h"
#include "hone/base/usable_cores.h"
#include "hone/data/batches/batch_sampler.h"
#include "hone/data/datasets/cached_dataset.h"
#include "hone/data/datasets/write_rows.h"
#include "hone/parallel/launch/rank_files.h"
#include "hone/train/checkpoints/checkpoint.h"
#include "hone/train/distillation/teacher.h"
#include "hone/train/loop/data_order.h"
#include "hone/train/methods/make_loss.h"
#include "hone/train/methods/objective.h"
#include "hone/train/methods/value_model.h"
#include "hone/train/reports/crc32c.h"
#include "hone/train/rl/teacher_prompt.h"
#include "hone/tuner/methods/method.h"
#include "hone/tuner/tuner.h"

namespace hone::train {
namespace {

// Servers receive only tokens, which the turns consist of.
void require_text(const rl::Prompts& prompts, bool has_servers, bool has_turns, const TeacherConfig* teacher) {
  if (!prompts.has_media()) return;
  if (teacher && !teacher->servers.empty())
    throw UserError(ExitCode::usage, "prompts with media, and a teacher on a server, which is sent text alone",
                    "load the teacher into the run (`teacher.folder`)");
  if (has_servers)
    throw UserError(ExitCode::usage, "prompts with media, and completions from rollout servers, which are sent text alone",
                    "let the training processes generate: leave the servers out");
  if (has_turns)
    throw UserError(ExitCode::usage, "prompts with media in multi-turn rollouts, which support only text",
                    "leave `turns.scheduler` out");
}

std::unique_ptr<data::Loader> train_loader(const TrainingJob& job, RunSetup& ready, const DistributedContext& processes) {
  auto config = job.loader;
  config.rank = processes.data_rank();
  config.world_size = processes.data_size();
  set_kl_block(job, config.world_size, config);
  config.payload = payload_collator(job);
  config.check = row_check(job);
  if (ready.data.train_stream) return data::make_loader(std::move(ready.data.train_stream), ready.encoder, config, ready.report);
  if (!ready.data.train) throw UserError(ExitCode::usage, "there is no training data", "name it with `dataset`");
  return data::make_loader(ready.data.train, ready.encoder, config, ready.report);
}

// CHORD's expert rows, which have responses.
std::unique_ptr<data::Loader> demonstration_loader(const TrainingJob& job, const RunSetup& ready,
                                                   const DistributedContext& processes) {
  const auto& config = *job.reinforcement->demonstrations;
  auto datasets = job.datasets;
  datasets.tokenizer = ready.tokenizer;
  datasets.datasets = config.datasets;
  datasets.val_datasets.clear();
  datasets.split_dataset_ratio = 0;
  datasets.prompts_only = false;
  const auto rows = data::open_datasets(datasets).train;
  if (!rows) throw UserError(ExitCode::bad_data, "the demonstrations (CHORD) have no rows");
  auto loading = job.loader;
  loading.batch_size = config.batch_size;
  loading.rank = processes.data_rank();
  loading.world_size = processes.data_size();
  loading.display_name = "the demonstrations";
  return data::make_loader(rows, ready.encoder, loading, ready.report);
}

// Of the solutions that rewards and schedulers of the run read.
std::vector<rl::RequiredColumn> compared_columns(const rl::ReinforcementConfig& config) {
  std::vector<rl::RequiredColumn> columns;
  for (const auto& [column, reward] : rl::required_columns(config.rewards))
    columns.push_back({column, fmt::format("the reward {}", reward)});
  if (config.turns && (config.turns->scheduler == "math_tip_trick" || config.turns->scheduler == "thinking_tips_scheduler"))
    columns.push_back({"solution", config.turns->scheduler});
  return columns;
}

std::unique_ptr<rl::RolloutLoader> rollout_loader(const TrainingJob& job, RunSetup& ready, const DistributedContext& processes) {
  if (!ready.data.train)
    throw UserError(ExitCode::usage, "there are no prompts to train on",
                    "name them with `dataset`; streams of unknown length cannot be used");
  auto geometry = rl::make_rollout_batching(job.reinforcement->batching, job.trainer.micro_batch_size,
                                            job.trainer.gradient_accumulation_steps, processes.data_size());
  auto read = [&, longest = longest_useful_prompt(job)](const std::shared_ptr<data::ConversationSource>& rows) {
    auto prompts =
        std::make_shared<const rl::Prompts>(rows, ready.encoder, *ready.report, job.loader.threads,
                                            rl::PromptRules{.most_tokens = longest,
                                                            .reads_teacher_prompts = job.reinforcement->teacher.has_value(),
                                                            .columns = compared_columns(*job.reinforcement)});
    const auto& config = *job.reinforcement;
    require_text(*prompts, config.servers.has_value(), config.turns.has_value(),
                 config.teacher ? &config.teacher->teacher : nullptr);
    return prompts;
  };
  auto loader = std::make_unique<rl::RolloutLoader>(*job.reinforcement, geometry, read(ready.data.train), job.loader.seed,
                                                    job.loader.shuffle);
  for (const auto& set : validation_sets(ready.data)) {
    ready.validation_prompts.push_back(read(set.rows));
    loader->make_room_for(*ready.validation_prompts.back());
  }
  if (job.reinforcement->demonstrations) loader->add_demonstrations(demonstration_loader(job, ready, processes));
  return loader;
}

// Rows with responses are complete batches; if every batch is generated, prompts suffice.
std::unique_ptr<DistillationLoader> distillation_loader(const TrainingJob& job, RunSetup& ready,
                                                        const DistributedContext& processes) {
  if (!ready.data.train)
    throw UserError(ExitCode::usage, "there are no prompts to train on",
                    "name them with `dataset`; streams of unknown length cannot be used");
  const auto& config = *job.distillation;
  auto rows = config.always_generates() ? nullptr : train_loader(job, ready, processes);
  data::RowReport unheard(false);  // the row loader reports them
  auto prompts = std::make_shared<const rl::Prompts>(
      ready.data.train, ready.encoder, rows ? unheard : *ready.report, job.loader.threads,
      rl::PromptRules{.most_tokens = longest_useful_prompt(job), .reads_teacher_prompts = true, .check = row_check(job)});
  require_text(*prompts, config.servers.has_value(), config.turns.has_value(), &config.teacher);
  return std::make_unique<DistillationLoader>(
      config, std::move(rows), std::move(prompts),
      DistillationLoader::Order{job.trainer.micro_batch_size, job.trainer.gradient_accumulation_steps, processes.data_rank(),
                                processes.data_size(), job.loader.seed, job.loader.shuffle});
}

// LLaMA-Factory's tokenized_path, the first time: later runs read what this run writes.
void write_tokenized(const TrainingJob& job, const RunSetup& ready) {
  ThreadPool pool(job.loader.threads ? job.loader.threads : static_cast<size_t>(usable_cores()));
  data::RowReport report(job.datasets.strict);
  const auto purpose = job.loader.pairs ? data::TemplateMode::rlhf : data::TemplateMode::train;
  if (ready.data.train)
    data::write_cached_dataset(job.tokenized_path / "train", *ready.data.train, *ready.encoder, report, pool, purpose);
  if (ready.data.validation)
    data::write_cached_dataset(job.tokenized_path / "validation", *ready.data.validation, *ready.encoder, report, pool, purpose);
}

// Ends the run before loading the model if the first evaluation would have no usable rows. Checks only the first rows.
void require_usable_rows(const TrainingJob& job, const RunSetup& ready) {
  constexpr int64_t kLookedAt = 256;
  const auto& rows = *ready.data.validation;
  std::string problem;
  for (int64_t row = 0; row < std::min(rows.size(), kLookedAt); ++row) {
    auto conversation = rows.at(row);
    auto samples = conversation ? data::encode_conversation(*ready.encoder, *conversation, job.loader, row)
                                : Result<data::SamplePack>(Error{conversation.error()});
    if (samples) return;
    if (problem.empty()) problem = samples.error();
  }
  if (rows.size() > 0 && rows.size() <= kLookedAt)
    throw UserError(ExitCode::bad_data, "no row of the validation data can be used: " + problem,
                    "fix the rows, or leave the validation data out");
}

std::unique_ptr<RunLock> hold(const fs::path& folder) {
  check_output_folder(folder);
  return std::make_unique<RunLock>(folder);
}

// A misspelt module is an error before rows are prepared or weights are read.
void require_tuned_modules(const TrainingJob& job) {
  const auto& changes = job.load.changes;
  if (changes.block_stride > 0 || changes.value_head) return;  // the folder lacks modules that this run adds
  tuner::require_modules(*model::CausalLM::skeleton(model::read_config(job.model_folder, changes.config)), job.tuner);
}

}  // namespace

int64_t longest_useful_prompt(const TrainingJob& job) {
  int64_t room = job.reinforcement ? job.reinforcement->engine.max_model_len : job.distillation->engine.max_model_len;
  return (room > 0 ? room : model::read_config(job.model_folder, job.load.changes.config).max_position_embeddings) - 1;
}

data::RowCheck row_check(const TrainingJob& job, bool validates) {
  if (!job.distillation) return {};
  const bool splits = job.parallel.sequence_parallel > 1 || job.parallel.layout.cp > 1;
  return [splits, validates, generates = job.distillation->always_generates()](const data::Conversation& row) {
    if (!rl::has_teacher_prompt(row)) return;
    if (validates)
      return log::warn_once(
          "rows of the validation data name a teacher_prompt: evaluations compare the rows' own responses, before "
          "which the teacher reads the student's prompt");
    const auto found = fmt::format("{}: the row names a teacher_prompt", row.origin.str());
    if (splits)
      throw UserError(ExitCode::usage, found + ", which needs full sequences, and `sequence_parallel` splits them",
                      "leave one of them out");
    if (!generates)
      throw UserError(ExitCode::bad_data, found + ", which the teacher reads before generated completions only",
                      "let the student generate all of them (`lmbda` 1), or leave the column out");
  };
}

void set_kl_block(const TrainingJob& job, int processes, data::LoaderConfig& config) {
  if (!config.feedback || !config.feedback->with_kl_pairs || config.feedback->block > 0) return;
  config.feedback->block = job.loader.batch_size * job.trainer.gradient_accumulation_steps * processes;
  if (config.feedback->block == 1)
    throw UserError(ExitCode::usage,
                    "KTO estimates the KL term from other rows and needs at least 2 rows per optimizer step; found 1",
                    "raise `per_device_train_batch_size` or `gradient_accumulation_steps`");
}

std::string tuner_name(const tuner::TunerConfig& tuner) {
  if (tuner.kind != tuner::TunerType::adapter) return tuner.kind == tuner::TunerType::full ? "full" : "freeze";
  return tuner.method == "LORA" ? "lora" : std::string(tuner::method_of_type(tuner.method).name);
}

std::string run_identity(const TrainingJob& job) {
  Json identity{job.stage, fs::absolute(job.model_folder).lexically_normal().string(), job.datasets.datasets,
                tuner_name(job.tuner), job.tuner.kind == tuner::TunerType::adapter ? job.tuner.lora.rank : 0};
  if (!job.task.is_generative()) identity.push_back({static_cast<int>(job.task.task), job.task.labels});
  auto text = identity.dump();
  return fmt::format("{:08x}{:08x}", crc32c(text), crc32c(text + "hone"));
}

std::vector<data::NamedSource> validation_sets(const data::OpenedData& data) {
  std::vector<data::NamedSource> sets;
  for (const auto& [name, rows] : data.validation_sets) sets.push_back({"eval_" + name, rows});
  if (sets.empty() && data.validation) sets.push_back({"eval", data.validation});
  return sets;
}

RunSetup set_up_run(const TrainingJob& job, const DistributedContext& processes) {
  check_output_folder(job.trainer.output_dir);
  if (job.do_train) require_tuned_modules(job);
  RunSetup ready;
  ready.report = std::make_shared<data::RowReport>(job.datasets.strict);
  const std::string trains_on = run_identity(job);
  RunStart start{.checkpoint = std::nullopt, .run_id = fresh_run_id(), .folder = settled_folder(job.trainer)};
  if (job.do_train) {  // one process decides: others may have been added since the run started
    if (processes.world.is_main()) {
      if (start.folder) ready.lock = hold(*start.folder);
      start = begin_run(job.trainer, {trains_on, job.args});
      if (start.folder && !ready.lock) ready.lock = hold(*start.folder);
    }
    if (auto shared = processes.share_text(start.checkpoint ? start.checkpoint->string() : ""); !shared.empty())
      ready.resume = shared;
  }
  if (ready.resume && !job.trainer.resume_only_model) require_same_objective(*ready.resume, objective(job));
  ready.tokenizer = text::load_tokenizer(job.model_folder, job.new_tokens);
  ready.encoder = data::Encoder::make(job.encode, ready.tokenizer, data::read_model_identity(job.model_folder));
  if (processes.world.is_main()) {
    probe_teacher(job, *ready.tokenizer);
    probe_value_model(job, *ready.tokenizer);
  }
  auto datasets = job.datasets;
  datasets.tokenizer = ready.tokenizer;
  ready.data = data::open_datasets(datasets);
  if (!job.tokenized_path.empty() && processes.world.is_main()) write_tokenized(job, ready);
  auto order = data_order(job, ready.data.train ? ready.data.train->size() : -1);
  if (ready.resume && !job.trainer.ignore_data_skip) require_same_order(*ready.resume, order);
  if (job.do_train) {
    if (job.reinforcement) {
      auto rollouts = rollout_loader(job, ready, processes);
      ready.rollouts = rollouts.get();
      ready.loader = std::move(rollouts);
    } else if (job.distillation && job.distillation->generates()) {
      auto distillation = distillation_loader(job, ready, processes);
      ready.distillation = distillation.get();
      ready.loader = std::move(distillation);
    } else {
      ready.loader = train_loader(job, ready, processes);
    }
    ready.report->log_summary();
    ready.plan = StepCounts::make(job.trainer, ready.loader->batches_per_epoch());
    auto schedule = job.schedule;
    schedule.total_steps = ready.plan.max_steps;
    schedule.warmup_steps = job.warmup.step_count(ready.plan.max_steps);
    ready.schedule.emplace(schedule);
  }
  bool wants_rows = job.trainer.eval != IntervalStrategy::never || job.do_eval || job.do_predict;
  if (wants_rows && !ready.data.validation && job.trainer.layout == Layout::factory)
    throw UserError(ExitCode::usage, "evaluation is requested, but there is no validation data",
                    "add `eval_dataset` or `val_size`");
  if (wants_rows && job.do_train && ready.data.validation && !job.reinforcement && !job.distillation)
    require_usable_rows(job, ready);
  if (processes.world.is_main()) {
    ready.run.root = make_run_folder(job.trainer, start);
    if (job.do_train && !ready.lock) ready.lock = hold(ready.run.root);
    if (job.do_train) sweep_leftovers(ready.run.root);
    if (job.trainer.overwrite_output_dir && start.folder && !ready.resume) fs::remove(ready.run.log_file(job.trainer.layout));
    parallel::write_run_dir(ready.run.root.string());
  }
  ready.run = {processes.share_text(ready.run.root.string()), processes.share_text(start.run_id).string(), trains_on, order,
               objective(job)};
  ready.folder_per_node = processes.folder_per_node(ready.run.root);
  if (ready.folder_per_node && processes.leaders) sweep_leftovers(ready.run.root);
  bool split_off = ready.data.validation && job.datasets.val_datasets.empty();
  if (split_off && processes.world.is_main() && job.trainer.layout == Layout::swift)
    data::write_rows(ready.run.root / kValidationFile, *ready.data.validation);
  return ready;
}

}  // namespace hone::train
