#include "hone/train/run.h"

#include <chrono>
#include <cmath>
#include <thread>

#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/data/encoded_rows.h"
#include "hone/data/sources.h"
#include "hone/data/write_rows.h"
#include "hone/device/device.h"
#include "hone/device/memory.h"
#include "hone/train/base_gradients.h"
#include "hone/parallel/supervision.h"
#include "hone/train/checkpoint.h"
#include "hone/train/companions.h"
#include "hone/train/crc32c.h"
#include "hone/train/data_order.h"
#include "hone/train/loaded_model.h"
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
  config.rank = processes.data_rank();
  config.world = processes.data_size();
  if (ready.data.train_stream) return data::make_loader(std::move(ready.data.train_stream), ready.encoder, config, ready.report);
  if (!ready.data.train) throw UserError(ExitCode::usage, "there is no training data", "name it with --dataset");
  return data::make_loader(ready.data.train, ready.encoder, config, ready.report);
}

// LLaMA-Factory's tokenized_path, the first time: later runs read what this one leaves there.
void keep_encoded(const TrainingJob& job, const Prepared& ready) {
  ThreadPool pool(job.loader.threads ? job.loader.threads : std::max(1u, std::thread::hardware_concurrency()));
  data::RowReport report(job.datasets.strict);
  if (ready.data.train) data::write_encoded(job.keep_encoded / "train", *ready.data.train, *ready.encoder, report, pool);
  if (ready.data.validation) data::write_encoded(job.keep_encoded / "validation", *ready.data.validation, *ready.encoder, report, pool);
}

Prepared prepare(const TrainingJob& job, const Processes& processes) {
  check_output_folder(job.trainer.output_dir);
  Prepared ready;
  ready.report = std::make_shared<data::RowReport>(job.datasets.strict);
  std::string identity = run_identity(job);
  if (job.do_train) {  // one process decides: others may not have been here when the run began
    auto found = processes.world.is_main() ? checkpoint_to_resume(job.trainer, identity) : std::nullopt;
    if (auto shared = processes.share_text(found ? found->string() : ""); !shared.empty()) ready.resume = shared;
  }
  ready.tokenizer = text::load_tokenizer(job.model_folder, job.new_tokens);
  ready.encoder = data::Encoder::make(job.encode, ready.tokenizer, data::read_model_identity(job.model_folder));
  auto datasets = job.datasets;
  datasets.tokenizer = ready.tokenizer;
  ready.data = data::open_datasets(datasets);
  if (!job.keep_encoded.empty() && processes.world.is_main()) keep_encoded(job, ready);
  auto order = data_order(job, ready.data.train ? ready.data.train->size() : -1);
  if (ready.resume && !job.trainer.ignore_data_skip) require_same_order(*ready.resume, order);
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
  if (processes.world.is_main()) parallel::note_run(ready.run.root.string());
  ready.run = {processes.share_text(ready.run.root.string()), identity, order};
  processes.require_shared(ready.run.root);
  bool split_off = ready.data.validation && job.datasets.val_datasets.empty();
  if (split_off && processes.world.is_main() && job.trainer.layout == Layout::swift)
    data::write_rows(ready.run.root / kValidationFile, *ready.data.validation);
  return ready;
}

LoadedModel load_model(const TrainingJob& job, const Prepared& ready, const Processes& processes) {
  auto options = job.load;
  if (job.room_for_tokens) options.changes.vocabulary = job.room_for_tokens(*ready.tokenizer);
  auto model = job.from_scratch ? model::CausalLM::random(model::read_config(job.model_folder, options.changes.config), job.trainer.seed, options)
                                : model::CausalLM::load(job.model_folder, options);
  device::seed(job.trainer.seed);
  auto tuning = job.tuner;
  tuning.borrow_weights = processes.shards_model();
  tuning.resumed = ready.resume;
  model->set_recompute(job.gradient_checkpointing ? job.recompute : model::Recompute::none, job.recomputed_blocks);
  if (job.offload_activations && job.load.device.is_cpu()) log::warning("activations are in host memory already: on a CPU there is nowhere to offload them to");
  else model->set_activation_offload(job.offload_activations);
  auto tuned = tuner::apply_tuner(*model, tuning, gradients_of_first_rows(job, ready.tokenizer, ready.data.train));
  model->set_neftune(job.neftune_alpha);
  if (job.print_parameters && processes.world.is_main())
    for (const auto& [name, value] : model->parameters())
      log::info("name: {}, dtype: {}, device: {}, trainable: {}", name, type_name(value->scalar_type()), value->device().str(), value->requires_grad());
  return spread(job, processes, std::move(model), std::move(tuned));
}

// Work per token as transformers estimates it: six operations for each weight outside the embedding.
double flops_per_token(model::CausalLM& model) {
  double weights = 0;
  for (const auto& parameter : model.parameters())
    if (parameter.value != &model.embedding().weight) weights += static_cast<double>(parameter.value->numel());
  return 6 * weights;
}

Companions companions_of(const TrainingJob& job, const Prepared& ready, const LoadedModel& loaded) {
  Companions companions{.model_folder = job.model_folder,
                        .model_name = job.model_name.empty() ? job.model_folder.string() : job.model_name,
                        .tuner = tuner_name(job.tuner.kind),
                        .weights_type = type_name(loaded.model->dtype()),
                        .layout = job.trainer.layout,
                        .args = job.args,
                        .additional = nullptr,
                        .config_changes = job.load.changes.config,
                        .new_tokens = job.new_tokens,
                        .tokenizer = ready.tokenizer};
  companions.config_changes["vocab_size"] = loaded.model->config().vocabulary;
  if (job.tuner.kind == tuner::Kind::lora && job.trainer.layout == Layout::swift)
    companions.additional = {{"lora_dtype", job.tuner.lora.dtype ? Json(type_name(*job.tuner.lora.dtype)) : Json(nullptr)},
                             {"lorap_lr_ratio", job.groups.loraplus_ratio ? Json(*job.groups.loraplus_ratio) : Json(nullptr)},
                             {"lorap_emb_lr", job.groups.loraplus_embedding_rate}};
  return companions;
}

// One process's part of something that all share in turn.
struct Share {
  int rank = 0, world = 1;
};

std::vector<EvaluationSet> evaluations_of(const TrainingJob& job, const Prepared& ready, Share share) {
  auto config = job.eval_loader;
  config.deal_batches = true;
  config.rank = share.rank;
  config.world = share.world;
  auto set_of = [&](std::string prefix, std::shared_ptr<data::ConversationSource> rows) -> EvaluationSet {
    return {std::move(prefix), [config, rows, &ready] { return data::make_loader(rows, ready.encoder, config, ready.report); }};
  };
  std::vector<EvaluationSet> sets;
  for (const auto& [name, rows] : ready.data.validation_sets) sets.push_back(set_of("eval_" + name, rows));
  if (sets.empty() && ready.data.validation) sets.push_back(set_of("eval", ready.data.validation));
  return sets;
}

Predict predictor_of(const TrainingJob& job, const Prepared& ready, model::CausalLM& model, Share share) {
  if (!ready.data.validation) return {};
  data::RowOrder rows;
  for (int64_t row = share.rank; row < ready.data.validation->size(); row += share.world) rows.push_back(static_cast<uint32_t>(row));
  auto own = data::select_source(ready.data.validation, std::move(rows));
  return [&job, &ready, &model, own] { return predict_answers(model, ready.tokenizer, *ready.encoder, *own, job.generation); };
}

int exit_code(const Finished& finished) {
  if (!finished.kept()) return static_cast<int>(ExitCode::out_of_space);
  switch (finished.outcome) {
    case Outcome::preempted:
      return static_cast<int>(ExitCode::preempted);
    case Outcome::interrupted:
      return static_cast<int>(ExitCode::interrupted);
    default:
      return static_cast<int>(ExitCode::ok);
  }
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

// The checkpoint that a run of ms-swift's layout comes to.
std::string result_of(const TrainState& state) {
  if (state.last_model_checkpoint.empty()) throw UserError(ExitCode::usage, "there is no checkpoint to send to the hub", "set --save_strategy to steps or epoch");
  return state.last_model_checkpoint;
}

Finished train(const TrainingJob& job, Prepared& ready, LoadedModel& loaded, const Processes& processes) {
  const auto& config = job.trainer;
  auto groups = optim::make_groups(loaded.tuned.trainable, job.groups);
  if (loaded.sharded) groups = piece_groups(groups, *loaded.sharded);
  auto working = groups;
  MasterWeights masters = config.pure ? MasterWeights() : MasterWeights(groups);
  auto optimizer = optim::make_optimizer(job.optimizer, std::move(groups));
  SftLoss method(job.sft);
  auto group = group_of(job, processes, loaded, working, optimizer->groups());
  auto companions = companions_of(job, ready, loaded);
  auto weights = weight_files(job, loaded, companions, processes.world.is_main());
  Share share{processes.data_rank(), processes.data_size()};
  std::optional<HubPush> push;
  if (job.push && processes.world.is_main()) push.emplace(*job.push);
  Share everyone{processes.world.rank, processes.world.size};  // answers are generated by whole models, also where sequences are split
  Trainer trainer(config, ready.run,
                  {*loaded.model, method, *ready.loader, *optimizer, *ready.schedule, masters, *group, weights,
                   evaluations_of(job, ready, share), job.predict_with_generate ? predictor_of(job, ready, *loaded.model, everyone) : Predict(),
                   row_namer(ready), flops_per_token(*loaded.model), loaded.sequence.get(), push ? [&push](const fs::path& checkpoint, int64_t step) { push->saved(checkpoint, step); } : std::function<void(const fs::path&, int64_t)>()});
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
                    config.layout, config.load_best_model_at_end};
  if (!finished.complete()) return finished;
  if (config.layout == Layout::factory) {
    auto write = [&] {
      weights.save(ready.run.root);
      if (job.tuner.lora.convert_at_end && loaded.tuned.adapter)
        tuner::save_pissa_conversion(*loaded.model, *loaded.tuned.adapter, ready.run.root);
    };
    if (weights.gather) weights.gather(write);
    else if (processes.world.is_main()) write();
  }
  if (!processes.world.is_main()) return finished;
  if (config.plot_loss) finished.plots = plot_history(finished.state.log_history, config.layout, ready.run.root);
  if (config.layout == Layout::factory) weights.save_companions(ready.run.root);
  write_train_results(config, ready.run, finished.state, trainer.results(), about_run(ready, loaded));
  if (push) log::info("sent to {}", push->finish(config.layout == Layout::factory ? ready.run.root : fs::path(result_of(finished.state))));
  return finished;
}

// Generated answers, by a model that is whole on every process for as long as it takes.
std::vector<Prediction> predict(const TrainingJob& job, const Prepared& ready, LoadedModel& loaded, bool main) {
  if (loaded.sharded) loaded.sharded->hold_whole(true);
  auto predictions = main ? predictor_of(job, ready, *loaded.model, {})() : std::vector<Prediction>();
  if (loaded.sharded) loaded.sharded->hold_whole(false);
  return predictions;
}

void round_weights(model::CausalLM& model, at::ScalarType type) {
  at::NoGradGuard no_grad;
  for (const auto& list : {model.parameters(), model.adapter_parameters()})
    for (const auto& [name, value] : list) value->set_data(value->to(type));
}

// What LLaMA-Factory does after training, or without any: a last evaluation, generated answers. Of processes that share one model all
// take part; the first one writes.
void measure(const TrainingJob& job, const Prepared& ready, LoadedModel& loaded, std::optional<double> epoch, bool main) {
  if (!main && !loaded.sharded) return;
  SoloGroup alone;  // everyone who takes part goes through the whole set
  if (job.measured_in) round_weights(*loaded.model, *job.measured_in);
  if (job.do_eval && ready.data.validation) {
    SftLoss method(job.sft);
    Json metrics = Json::object();
    for (const auto& [prefix, make_loader] : evaluations_of(job, ready, {})) {
      metrics.update(evaluate(*loaded.model, method, *make_loader(), loaded.model->device(), alone, prefix));
      if (job.stage == "pt") metrics[prefix + "_perplexity"] = std::exp(metrics[prefix + "_loss"].get<double>());
    }
    if (job.predict_with_generate) metrics.update(text_metrics(predict(job, ready, loaded, main), alone));
    if (epoch) metrics["epoch"] = *epoch;
    if (main) write_results(ready.run, "eval", metrics);
  }
  if (job.do_predict && ready.data.validation) {
    auto predictions = predict(job, ready, loaded, main);
    if (!main) return;
    write_predictions((ready.run.root / "generated_predictions.jsonl").string(), predictions);
    write_results(ready.run, "predict", text_metrics(predictions, alone, "predict"));
  }
}

}  // namespace

std::string run_identity(const TrainingJob& job) {
  Json identity{job.stage, fs::absolute(job.model_folder).lexically_normal().string(), job.datasets.datasets,
                tuner_name(job.tuner.kind), job.tuner.kind == tuner::Kind::lora ? job.tuner.lora.rank : 0};
  auto text = identity.dump();
  return fmt::format("{:08x}{:08x}", crc32c(text), crc32c(text + "hone"));
}

namespace {

void check_method(const TrainingJob& job, const Processes& processes) {
  if (processes.shards_model()) require_elementwise(job.optimizer.name);
  if (processes.shards_model() && job.load.changes.compression)
    throw UserError(ExitCode::usage, "quantized weights are not spread over processes", "use --deepspeed zero2, or data parallel alone");
  if (processes.world.distributed() && job.trainer.layer_sampling)
    throw UserError(ExitCode::usage, "LISA trains other layers from time to time, which several processes cannot follow", "train in one process");
  if (processes.world.distributed() && job.optimizer.name == "badam")
    throw UserError(ExitCode::usage, "BAdam moves gradients from layer to layer, which several processes cannot follow",
                    "train in one process, or use adamw_torch");
  if (processes.world.distributed() && job.trainer.find_batch_size)
    throw UserError(ExitCode::usage, "auto_find_batch_size looks for what fits one process; several would have to agree", "set --per_device_train_batch_size");
}

// One attempt. `folder` is where the run is written as soon as that is known.
int attempt(const TrainingJob& job, const Processes& processes, fs::path& folder) {
  auto ready = prepare(job, processes);
  folder = ready.run.root;
  bool main = processes.world.is_main();
  if (main && !job.chosen.empty()) log::info("auto: {}", job.chosen);
  if (main && !job.args.empty() && job.trainer.layout == Layout::swift)
    write_file_atomically(ready.run.root / "args.json", job.args.dump(2));
  try {
    auto loaded = load_model(job, ready, processes);
    std::optional<Finished> finished;
    if (job.do_train) finished = train(job, ready, loaded, processes);
    if (!finished || finished->complete()) measure(job, ready, loaded, finished ? std::optional(finished->state.epoch) : std::nullopt, main);
    if (main && finished) fmt::print("\n{}", closing_summary(*finished));
    return finished ? exit_code(*finished) : static_cast<int>(ExitCode::ok);
  } catch (const c10::OutOfMemoryError& error) {
    auto use = device::memory_use(job.load.device);
    throw UserError(
        ExitCode::out_of_memory,
        fmt::format("{} ran out of memory ({} in use at the peak, {} in all)", device::describe(job.load.device),
                    format_bytes(static_cast<double>(use.peak)), format_bytes(static_cast<double>(use.total))),
        "lower the batch size or --max_length, raise --gradient_accumulation_steps, or add --gradient_checkpointing true");
  }
}

}  // namespace

int run_training(const TrainingJob& job) {
  if (job.load.device.is_cpu()) device::keep_cpu_buffers();
  auto processes = Processes::join(job.parallel, job.args, job.load.device);
  check_method(job, processes);
  auto smaller = job;
  for (;;) {
    fs::path folder;
    try {
      return attempt(smaller, processes, folder);
    } catch (const UserError& problem) {
      if (!job.trainer.find_batch_size || problem.code() != ExitCode::out_of_memory || smaller.loader.batch_size == 1) throw;
    }
    smaller.loader.batch_size /= 2;
    smaller.trainer.micro_batch_size = smaller.loader.batch_size;
    smaller.trainer.continue_run = folder;
    if (!job.load.device.is_cpu()) at::accelerator::emptyCache();
    log::warning("out of memory: again with --per_device_train_batch_size {}", smaller.loader.batch_size);
  }
}

}  // namespace hone::train
