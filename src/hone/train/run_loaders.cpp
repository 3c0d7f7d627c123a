#include "hone/train/run_loaders.h"

#include <algorithm>

#include "hone/base/log.h"
#include "hone/data/batches/row_encoder.h"
#include "hone/train/methods/make_loss.h"
#include "hone/train/rl/teacher_prompt.h"

namespace hone::train {
namespace {

// Servers of other programs receive only tokens.
void require_text(const rl::Prompts& prompts, const std::optional<rl::RolloutServerConfig>& servers,
                  const TeacherConfig* teacher) {
  if (!prompts.has_media()) return;
  if (teacher && !teacher->servers.empty())
    throw UserError(ExitCode::usage, "prompts with media, and a teacher on a server, which is sent text alone",
                    "load the teacher into the run (`teacher.folder`)");
  if (servers && servers->sampling_only)
    throw UserError(ExitCode::usage,
                    "prompts with media, and completions from servers of OpenAI's completions API, which takes text alone",
                    "start `hone rollout` on the servers, or let the training processes generate: leave the servers out");
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

// Whether no token of the first rows has a label.
bool lack_labels(const TrainingJob& job, const RunSetup& ready) {
  constexpr int64_t kLookedAt = 256;
  const auto& rows = *ready.data.train;
  const auto has_label = [](const data::Sample& sample) {
    return std::ranges::any_of(sample.labels, [](auto label) { return label != data::kIgnore; });
  };
  bool is_usable = false;
  for (int64_t row = 0; row < std::min(rows.size(), kLookedAt); ++row) {
    const auto conversation = rows.at(row);
    if (!conversation) continue;
    const auto samples = data::encode_conversation(*ready.encoder, *conversation, job.loader, row);
    if (samples && std::ranges::any_of(*samples, has_label)) return false;
    is_usable |= samples.ok();
  }
  return is_usable;
}

// Without labels every loss is 0, and nothing is learned.
void require_labels(const TrainingJob& job, const RunSetup& ready) {
  const bool learns_tokens = job.task.is_generative() && job.preference.method != Preference::rm;
  if (!learns_tokens || !ready.data.train) return;
  const auto& report = *ready.report;
  if (report.tokens() == 0) {  // large inputs are read while the run continues
    if (lack_labels(job, ready)) log::warning("no token of the first rows has a label: nothing is learned from them");
    return;
  }
  if (report.trained_tokens() == 0)
    throw UserError(ExitCode::bad_data, "no token of the training data has a label: there is nothing to learn",
                    "check \"loss\" of the messages, `loss_scale`, and whether `max_length` truncates the responses");
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

// The columns with the solutions that rewards and schedulers of the run read.
std::vector<rl::RequiredColumn> compared_columns(const rl::ReinforcementConfig& config) {
  std::vector<rl::RequiredColumn> columns;
  for (const auto& [column, reward] : rl::required_columns(config.rewards))
    columns.push_back({column, fmt::format("the reward {}", reward)});
  if (config.turns && (config.turns->scheduler == "math_tip_trick" || config.turns->scheduler == "thinking_tips_scheduler"))
    columns.push_back({"solution", config.turns->scheduler});
  return columns;
}

void require_prompts(const data::OpenedData& data) {
  if (!data.train)
    throw UserError(ExitCode::usage, "there are no prompts to train on",
                    "name them with `dataset`; streams of unknown length cannot be used");
}

std::unique_ptr<rl::RolloutLoader> rollout_loader(const TrainingJob& job, RunSetup& ready, const DistributedContext& processes) {
  require_prompts(ready.data);
  auto geometry = rl::make_rollout_batching(job.reinforcement->batching, job.trainer.micro_batch_size,
                                            job.trainer.gradient_accumulation_steps, processes.data_size());
  const bool runs_programs = std::ranges::count(job.reinforcement->rewards.functions, "code") > 0;
  auto read = [&, longest = longest_useful_prompt(job)](const std::shared_ptr<data::ConversationSource>& rows) {
    auto prompts =
        std::make_shared<const rl::Prompts>(rows, ready.encoder, *ready.report, job.loader.threads,
                                            rl::PromptRules{.most_tokens = longest,
                                                            .reads_teacher_prompts = job.reinforcement->teacher.has_value(),
                                                            .columns = compared_columns(*job.reinforcement),
                                                            .reads_test_cases = runs_programs});
    const auto& config = *job.reinforcement;
    require_text(*prompts, config.servers, config.teacher ? &config.teacher->teacher : nullptr);
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
  require_prompts(ready.data);
  const auto& config = *job.distillation;
  auto rows = config.always_generates() ? nullptr : train_loader(job, ready, processes);
  data::RowReport unheard(false);  // the row loader reports them
  auto prompts = std::make_shared<const rl::Prompts>(
      ready.data.train, ready.encoder, rows ? unheard : *ready.report, job.loader.threads,
      rl::PromptRules{.most_tokens = longest_useful_prompt(job), .reads_teacher_prompts = true, .check = row_check(job)});
  require_text(*prompts, config.servers, &config.teacher);
  return std::make_unique<DistillationLoader>(
      config, std::move(rows), std::move(prompts),
      DistillationLoader::Order{job.trainer.micro_batch_size, job.trainer.gradient_accumulation_steps, processes.data_rank(),
                                processes.data_size(), job.loader.seed, job.loader.shuffle});
}

}  // namespace

void add_loader(const TrainingJob& job, const DistributedContext& processes, RunSetup& ready) {
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
    require_labels(job, ready);
  }
  ready.report->log_summary();
  ready.step_counts = StepCounts::make(job.trainer, ready.loader->batches_per_epoch());
  auto schedule = job.schedule;
  schedule.total_steps = ready.step_counts.max_steps;
  schedule.warmup_steps = job.warmup.step_count(ready.step_counts.max_steps);
  ready.schedule.emplace(schedule);
}

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

}  // namespace hone::train
