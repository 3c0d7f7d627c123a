#include "hone/train/run.h"

#include <chrono>
#include <cmath>
#include <cstring>

#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/device/device.h"
#include "hone/device/memory.h"
#include "hone/parallel/process_group.h"
#include "hone/train/checkpoint.h"
#include "hone/train/companions.h"
#include "hone/train/crc32c.h"
#include "hone/train/data_parallel.h"
#include "hone/train/overview.h"
#include "hone/train/plot.h"
#include "hone/train/results.h"
#include "hone/train/trainer.h"
#include "hone/tuner/tuner.h"

namespace hone::train {
namespace {

const char* tuner_name(tuner::Kind kind) {
  return kind == tuner::Kind::lora ? "lora" : kind == tuner::Kind::full ? "full" : "freeze";
}

std::string type_name(at::ScalarType type) {
  return type == at::kBFloat16 ? "bfloat16" : type == at::kHalf ? "float16" : "float32";
}

// This process among those that train together.
struct Processes {
  parallel::World world = parallel::world_from_environment();
  std::unique_ptr<parallel::ProcessGroup> group;

  static Processes join() {
    Processes processes;
    if (processes.world.distributed()) processes.group = parallel::ProcessGroup::join(processes.world, std::chrono::minutes(10));
    return processes;
  }
  // The first process's text, on all of them.
  fs::path share_text(const std::string& text) const {
    if (!group) return text;
    constexpr int64_t kLongest = 4096;
    auto bytes = at::zeros({kLongest}, at::kByte);
    std::memcpy(bytes.data_ptr(), text.data(), std::min<size_t>(text.size(), kLongest - 1));
    group->broadcast(bytes, 0);
    return static_cast<const char*>(bytes.const_data_ptr());
  }
};

// What is ready before the model is: every mistake in options or data that can be known shows here, in a second.
struct Prepared {
  RunFolder run;
  std::optional<fs::path> resume;
  std::shared_ptr<data::RowReport> report;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const data::Encoder> encoder;
  data::OpenedData data;
  std::unique_ptr<data::Loader> loader;
  StepPlan plan;
  std::optional<optim::Schedule> schedule;
};

std::unique_ptr<data::Loader> train_loader(const TrainingJob& job, Prepared& ready, const Processes& processes) {
  auto config = job.loader;
  config.rank = processes.world.rank;
  config.world = processes.world.size;
  if (ready.data.train_stream) return data::make_loader(std::move(ready.data.train_stream), ready.encoder, config, ready.report);
  if (!ready.data.train) throw UserError(ExitCode::usage, "there is no training data", "name it with --dataset");
  return data::make_loader(ready.data.train, ready.encoder, config, ready.report);
}

Prepared prepare(const TrainingJob& job, const Processes& processes) {
  check_output_folder(job.trainer.output_dir);
  Prepared ready;
  ready.report = std::make_shared<data::RowReport>(job.datasets.strict);
  std::string identity = run_identity(job);
  if (job.do_train) ready.resume = checkpoint_to_resume(job.trainer, identity);
  ready.tokenizer = text::Tokenizer::load(job.model_folder);
  ready.encoder = data::Encoder::make(job.encode, ready.tokenizer, data::read_model_identity(job.model_folder));
  ready.data = data::open_datasets(job.datasets);
  if (job.do_train) {
    ready.loader = train_loader(job, ready, processes);
    ready.report->log_summary();
    ready.plan = StepPlan::make(job.trainer, ready.loader->batches_per_epoch());
    auto schedule = job.schedule;
    schedule.total_steps = ready.plan.max_steps;
    schedule.warmup_steps = optim::warmup_step_count(job.warmup_steps, job.warmup_ratio, ready.plan.max_steps);
    ready.schedule.emplace(schedule);
  }
  bool wants_rows = job.trainer.eval != Every::never || job.do_eval || job.do_predict;
  if (wants_rows && !ready.data.validation && job.trainer.layout == Layout::factory)
    throw UserError(ExitCode::usage, "evaluation is asked for, yet there is no validation data",
                    "add --eval_dataset or --val_size");
  if (processes.world.is_main()) ready.run = make_run_folder(job.trainer, identity);
  ready.run = {processes.share_text(ready.run.root.string()), identity};
  return ready;
}

struct LoadedModel {
  std::unique_ptr<model::CausalLM> model;
  tuner::Tuned tuned;
};

LoadedModel load_model(const TrainingJob& job) {
  auto model = job.from_scratch ? model::CausalLM::random(model::read_config(job.model_folder), job.trainer.seed, job.load)
                                : model::CausalLM::load(job.model_folder, job.load);
  device::seed(job.trainer.seed);
  auto tuned = tuner::apply_tuner(*model, job.tuner);
  model->set_recompute(job.gradient_checkpointing ? model::Recompute::block : model::Recompute::none);
  model->set_neftune(job.neftune_alpha);
  return {std::move(model), std::move(tuned)};
}

// Work per token as transformers estimates it: six operations for each weight outside the embedding.
double flops_per_token(model::CausalLM& model) {
  double weights = 0;
  for (const auto& parameter : model.parameters())
    if (parameter.value != &model.embedding().weight) weights += static_cast<double>(parameter.value->numel());
  return 6 * weights;
}

Companions companions_of(const TrainingJob& job, const LoadedModel& loaded) {
  Companions companions{.model_folder = job.model_folder,
                        .model_name = job.model_name.empty() ? job.model_folder.string() : job.model_name,
                        .tuner = tuner_name(job.tuner.kind),
                        .weights_type = type_name(loaded.model->dtype()),
                        .layout = job.trainer.layout,
                        .args = job.args,
                        .additional = nullptr};
  if (job.tuner.kind == tuner::Kind::lora && job.trainer.layout == Layout::swift)
    companions.additional = {{"lora_dtype", job.tuner.lora.dtype ? Json(type_name(*job.tuner.lora.dtype)) : Json(nullptr)},
                             {"lorap_lr_ratio", job.groups.loraplus_ratio ? Json(*job.groups.loraplus_ratio) : Json(nullptr)},
                             {"lorap_emb_lr", job.groups.loraplus_embedding_rate}};
  return companions;
}

std::function<std::unique_ptr<data::Loader>()> eval_loader_of(const TrainingJob& job, const Prepared& ready) {
  if (!ready.data.validation) return {};
  return [&job, &ready] { return data::make_loader(ready.data.validation, ready.encoder, job.eval_loader, ready.report); };
}

Predict predictor_of(const TrainingJob& job, const Prepared& ready, model::CausalLM& model) {
  if (!ready.data.validation) return {};
  return [&job, &ready, &model] {
    return predict_answers(model, ready.tokenizer, *ready.encoder, *ready.data.validation, job.generation);
  };
}

int exit_code(Outcome outcome) {
  switch (outcome) {
    case Outcome::preempted:
      return static_cast<int>(ExitCode::preempted);
    case Outcome::interrupted:
      return static_cast<int>(ExitCode::interrupted);
    default:
      return static_cast<int>(ExitCode::ok);
  }
}

std::unique_ptr<Group> group_of(const Processes& processes, const std::vector<optim::ParameterGroup>& parameters) {
  if (!processes.group) return std::make_unique<SoloGroup>();
  auto group = std::make_unique<DataParallelGroup>(*processes.group);
  group->share_from_main(parameters);
  return group;
}

// "train.jsonl:12" for reports about a batch.
std::function<std::string(int64_t)> row_namer(const Prepared& ready) {
  auto source = ready.data.train;
  if (!source) return {};
  return [source](int64_t row) {
    auto conversation = source->at(row);
    return conversation ? conversation->origin.str() : fmt::format("row {}", row);
  };
}

// The head of ms-swift's summary line.
Json about_run(const Prepared& ready, const LoadedModel& loaded) {
  auto millions = [](int64_t count) { return static_cast<double>(count) / 1e6; };
  const auto& tuned = loaded.tuned;
  Json about{{"model_parameter_info",
              fmt::format("{}: {:.4f}M Params ({:.4f}M Trainable [{:.4f}%]), 0.0000M Buffers.",
                          loaded.model->config().architecture, millions(tuned.total_count), millions(tuned.trainable_count),
                          100 * millions(tuned.trainable_count) / std::max(millions(tuned.total_count), 1e-9))}};
  if (ready.data.train) about["train_dataset"] = fmt::format("size={}", ready.data.train->size());
  if (ready.data.validation) about["val_dataset"] = fmt::format("size={}", ready.data.validation->size());
  return about;
}

Finished train(const TrainingJob& job, Prepared& ready, LoadedModel& loaded, const Processes& processes) {
  const auto& config = job.trainer;
  auto groups = optim::make_groups(loaded.tuned.trainable, job.groups);
  MasterWeights masters = config.pure ? MasterWeights() : MasterWeights(groups);
  auto optimizer = optim::make_optimizer(job.optimizer, std::move(groups));
  SftLoss method(job.sft);
  auto group = group_of(processes, optimizer->groups());
  auto companions = companions_of(job, loaded);
  WeightFiles weights{
      [&](const fs::path& folder) { tuner::save_trained(*loaded.model, loaded.tuned, folder, job.max_shard_bytes); },
      [&](const fs::path& folder) { tuner::load_trained(*loaded.model, loaded.tuned, folder); },
      [&](const fs::path& folder) { companions.write(folder); }};
  Trainer trainer(config, ready.run,
                  {*loaded.model, method, *ready.loader, *optimizer, *ready.schedule, masters, *group, weights,
                   eval_loader_of(job, ready), job.predict_with_generate ? predictor_of(job, ready, *loaded.model) : Predict(),
                   row_namer(ready), flops_per_token(*loaded.model)});
  // Weights began alike on all processes; dropout must not.
  if (int rank = processes.world.rank; rank > 0) device::seed(job.trainer.seed + static_cast<uint64_t>(rank));
  if (ready.resume) trainer.resume(*ready.resume);
  if (processes.world.is_main()) {
    log::info("{}", trainable_table(loaded.tuned));
    log::info("{}",
              running_block(config, ready.plan, ready.data.train ? ready.data.train->size() - ready.report->bad() : -1, loaded.tuned, group->size()));
  }
  auto outcome = trainer.train();
  Finished finished{outcome,      trainer.state(), ready.run, {}, job.program, job.model_folder, loaded.tuned.adapter.has_value(),
                    config.layout};
  if (!processes.world.is_main() || !finished.complete()) return finished;
  if (config.plot_loss) finished.plots = plot_history(finished.state.log_history, config.layout, ready.run.root);
  if (config.layout == Layout::factory) {
    weights.save(ready.run.root);
    weights.save_companions(ready.run.root);
  }
  write_train_results(config, ready.run, finished.state, trainer.results(), about_run(ready, loaded));
  return finished;
}

// What LLaMA-Factory does after training, or without any: a last evaluation, generated answers.
void measure(const TrainingJob& job, const Prepared& ready, LoadedModel& loaded) {
  if (job.do_eval && ready.data.validation) {
    SftLoss method(job.sft);
    auto loader = eval_loader_of(job, ready)();
    auto metrics = evaluate(*loaded.model, method, *loader, loaded.model->device());
    if (job.stage == "pt") metrics["eval_perplexity"] = std::exp(metrics["eval_loss"].get<double>());
    if (job.predict_with_generate) metrics.update(text_metrics(predictor_of(job, ready, *loaded.model)()));
    write_results(ready.run, "eval", metrics);
  }
  if (job.do_predict && ready.data.validation) {
    auto predictions = predictor_of(job, ready, *loaded.model)();
    write_predictions((ready.run.root / "generated_predictions.jsonl").string(), predictions);
    write_results(ready.run, "predict", text_metrics(predictions, "predict"));
  }
}

}  // namespace

std::string run_identity(const TrainingJob& job) {
  Json identity{job.stage, fs::absolute(job.model_folder).lexically_normal().string(), job.datasets.datasets,
                tuner_name(job.tuner.kind), job.tuner.kind == tuner::Kind::lora ? job.tuner.lora.rank : 0};
  auto text = identity.dump();
  return fmt::format("{:08x}{:08x}", crc32c(text), crc32c(text + "hone"));
}

int run_training(const TrainingJob& job) {
  if (job.load.device.is_cpu()) device::keep_cpu_buffers();
  auto processes = Processes::join();
  auto ready = prepare(job, processes);
  bool main = processes.world.is_main();
  if (main && !job.args.empty() && job.trainer.layout == Layout::swift)
    write_file_atomically(ready.run.root / "args.json", job.args.dump(2));
  try {
    auto loaded = load_model(job);
    std::optional<Finished> finished;
    if (job.do_train) finished = train(job, ready, loaded, processes);
    if (main && (!finished || finished->complete())) measure(job, ready, loaded);
    if (main && finished) fmt::print("\n{}", closing_summary(*finished));
    return finished ? exit_code(finished->outcome) : static_cast<int>(ExitCode::ok);
  } catch (const c10::OutOfMemoryError& error) {
    auto use = device::memory_use(job.load.device);
    throw UserError(
        ExitCode::out_of_memory,
        fmt::format("{} ran out of memory ({} in use at the peak, {} in all)", device::describe(job.load.device),
                    format_bytes(static_cast<double>(use.peak)), format_bytes(static_cast<double>(use.total))),
        "lower the batch size or --max_length, raise --gradient_accumulation_steps, or add --gradient_checkpointing true");
  }
}

}  // namespace hone::train
