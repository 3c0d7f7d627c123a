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
#include "hone/train/methods/objective.h"
#include "hone/train/methods/value_model.h"
#include "hone/train/reports/crc32c.h"
#include "hone/train/run_loaders.h"
#include "hone/tuner/methods/method.h"
#include "hone/tuner/tuner.h"

namespace hone::train {
namespace {

// LLaMA-Factory's tokenized_path, the first time: later runs read what this run writes.
void write_tokenized(const TrainingJob& job, const RunSetup& ready) {
  ThreadPool pool(job.loader.threads ? job.loader.threads : static_cast<size_t>(usable_cores()));
  data::RowReport report(job.datasets.strict);
  const auto purpose = job.datasets.encoded_for;
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

// Where the run starts: in a new folder, or from a checkpoint. One process decides: others may have been added since the run
// started.
RunStart choose_start(const TrainingJob& job, const DistributedContext& processes, const std::string& trains_on,
                      RunSetup& ready) {
  RunStart start{.checkpoint = std::nullopt, .run_id = fresh_run_id(), .folder = settled_folder(job.trainer)};
  if (!job.do_train) return start;
  if (processes.world.is_main()) {
    if (start.folder) ready.lock = hold(*start.folder);
    start = begin_run(job.trainer, {trains_on, job.args});
    if (start.folder && !ready.lock) ready.lock = hold(*start.folder);
  }
  if (auto shared = processes.broadcast_text(start.checkpoint ? start.checkpoint->string() : ""); !shared.empty())
    ready.resume = shared;
  return start;
}

void check_validation_data(const TrainingJob& job, const RunSetup& ready) {
  const bool wants_rows = job.trainer.eval != IntervalStrategy::never || job.do_eval || job.do_predict;
  if (wants_rows && !ready.data.validation && job.trainer.layout == Layout::factory)
    throw UserError(ExitCode::usage, "evaluation is requested, but there is no validation data",
                    "add `eval_dataset` or `val_size`");
  if (wants_rows && job.do_train && ready.data.validation && !job.reinforcement && !job.distillation)
    require_usable_rows(job, ready);
}

// On the first process.
void open_run_folder(const TrainingJob& job, const RunStart& start, RunSetup& ready) {
  ready.run.root = make_run_folder(job.trainer, start);
  if (job.do_train && !ready.lock) ready.lock = hold(ready.run.root);
  if (job.do_train) sweep_leftovers(ready.run.root);
  if (job.trainer.overwrite_output_dir && start.folder && !ready.resume) fs::remove(ready.run.log_file(job.trainer.layout));
  parallel::write_run_dir(ready.run.root.string());
}

}  // namespace

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
  const auto start = choose_start(job, processes, trains_on, ready);
  if (ready.resume && !job.trainer.resume_only_model) {
    require_same_objective(*ready.resume, objective(job));
    require_same_optimizer(*ready.resume, job);
  }
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
  const auto order = data_order(job, ready.data.train ? ready.data.train->size() : -1);
  if (ready.resume && !job.trainer.ignore_data_skip && require_same_order(*ready.resume, order) && processes.world.is_main())
    log::info("{}: the rows continue in the same order, in other batches", ready.resume->string());
  if (job.do_train) add_loader(job, processes, ready);
  check_validation_data(job, ready);
  if (processes.world.is_main()) open_run_folder(job, start, ready);
  ready.run = {processes.broadcast_text(ready.run.root.string()),
               processes.broadcast_text(start.run_id),
               trains_on,
               order,
               objective(job),
               job.optimizer.name};
  ready.folder_per_node = processes.folder_per_node(ready.run.root);
  if (ready.folder_per_node && processes.leaders) sweep_leftovers(ready.run.root);
  const bool split_off = ready.data.validation && job.datasets.val_datasets.empty();
  if (split_off && processes.world.is_main() && job.trainer.layout == Layout::swift)
    data::write_rows(ready.run.root / kValidationFile, *ready.data.validation);
  return ready;
}

}  // namespace hone::train
