#include "hone/train/evaluation/final_evaluation.h"

#include <cmath>
#include <cstdio>
#include <map>

#include "hone/data/datasets/sources.h"
#include "hone/train/losses/reward.h"
#include "hone/train/reports/run_log.h"
#include "hone/train/run_loaders.h"

namespace hone::train {
namespace {

// Generated responses, from a model that is temporarily gathered on every process.
std::vector<Prediction> predict(const TrainingJob& job, const RunSetup& ready, LoadedModel& loaded, bool main) {
  loaded.keep_gathered(true);
  auto predictions = main ? make_predictor(job, ready, *loaded.model, {})() : std::vector<Prediction>();
  loaded.keep_gathered(false);
  return predictions;
}

// A reward model's predictions are the scores of both responses.
void predict_scores(const TrainingJob& job, const RunSetup& ready, LoadedModel& loaded, const OtherModels& others, bool main) {
  SingleProcess alone;
  auto loss = make_loss(job, *ready.tokenizer, others);
  auto config = job.eval_loader;
  config.display_name = "the validation data";
  config.payload = payload_collator(job);
  auto loader = data::make_loader(ready.data.validation, ready.encoder, config, ready.report);
  std::vector<Tensor> scores;
  auto metrics = evaluate(*loaded.model, *loss, *loader, loaded.model->device(), alone, "predict", nullptr, &scores);
  if (!main) return;
  write_pair_scores((ready.run.root / "generated_predictions.jsonl").string(), scores);
  write_results(ready.run, "predict", metrics);
}

void round_weights(model::CausalLM& model, at::ScalarType type) {
  at::NoGradGuard no_grad;
  for (const auto& list : {model.parameters(), model.tree().adapter_parameters()})
    for (const auto& [name, value] : list) value->set_data(value->to(type));
}

// transformers sorts the keys of these files.
std::string sorted_text(const Json& metrics) {
  std::map<std::string, Json> sorted;
  for (const auto& [key, value] : metrics.items()) sorted[key] = value;
  Json ordered = Json::object();
  for (auto& [key, value] : sorted) ordered[key] = std::move(value);
  return ordered.dump(4) + "\n";
}

}  // namespace

std::vector<EvaluationSet> evaluations_of(const TrainingJob& job, const RunSetup& ready, DataShard share) {
  auto config = job.eval_loader;
  config.shard_batches = true;
  config.display_name = "the validation data";
  config.payload = payload_collator(job);
  config.check = row_check(job, /*validates=*/true);
  config.rank = share.rank;
  config.world_size = share.world;
  set_kl_block(job, share.world, config);
  std::vector<EvaluationSet> sets;
  for (const auto& [prefix, rows] : validation_sets(ready.data)) {
    auto index = sets.size();
    if (ready.rollouts)
      sets.push_back({prefix, [index, config, &ready] {
                        return ready.rollouts->evaluation(ready.validation_prompts[index], config.batch_size);
                      }});
    else
      sets.push_back({prefix, [config, rows, &ready] { return data::make_loader(rows, ready.encoder, config, ready.report); }});
  }
  return sets;
}

Predict make_predictor(const TrainingJob& job, const RunSetup& ready, model::CausalLM& model, DataShard share) {
  if (!ready.data.validation) return {};
  data::RowOrder rows;
  for (int64_t row = share.rank; row < ready.data.validation->size(); row += share.world)
    rows.push_back(static_cast<uint32_t>(row));
  auto own = data::select_source(ready.data.validation, std::move(rows));
  return
      [&job, &ready, &model, own] { return predict_completions(model, ready.tokenizer, *ready.encoder, *own, job.generation); };
}

void evaluate_after_training(const TrainingJob& job, const RunSetup& ready, LoadedModel& loaded, const OtherModels& others,
                             const RunResult* finished, bool main) {
  if (!main && !loaded.sharded && !loaded.tensor && !loaded.stages) return;
  std::unique_ptr<ParallelStrategy> alone = std::make_unique<SingleProcess>();  // every process evaluates the full set
  if (loaded.stages) alone = std::make_unique<PipelineStages>(*loaded.stages, *loaded.schedule);
  if (job.eval_dtype) round_weights(*loaded.model, *job.eval_dtype);
  if (job.do_eval && ready.data.validation && !job.reinforcement) {  // already evaluated after the last step
    auto loss = make_loss(job, *ready.tokenizer, others);
    if (finished && !finished->loss_state.is_null()) loss->restore(finished->loss_state);
    Json metrics = Json::object();
    for (const auto& [prefix, make_loader] : evaluations_of(job, ready, {})) {
      metrics.update(evaluate(*loaded.model, *loss, *make_loader(), loaded.model->device(), *alone, prefix));
      if (job.stage == "pt") metrics[prefix + "_perplexity"] = std::exp(metrics[prefix + "_loss"].get<double>());
    }
    if (job.predict_with_generate) metrics.update(text_metrics(predict(job, ready, loaded, main), *alone));
    if (finished) metrics["epoch"] = finished->state.epoch;
    if (main) write_results(ready.run, "eval", metrics);
  }
  if (job.do_predict && ready.data.validation && job.preference.method == Preference::rm)
    return predict_scores(job, ready, loaded, others, main);
  if (job.do_predict && ready.data.validation) {
    auto predictions = predict(job, ready, loaded, main);
    if (!main) return;
    write_predictions((ready.run.root / "generated_predictions.jsonl").string(), predictions);
    write_results(ready.run, "predict", text_metrics(predictions, *alone, "predict"));
  }
}

void write_results(const RunFolder& run, const std::string& split, const Json& metrics) {
  write_file_atomically(run.root / (split + "_results.json"), sorted_text(metrics));
  fs::path all_path = run.root / "all_results.json";
  Json all = fs::exists(all_path) ? read_config_file(all_path.string()) : Json::object();
  all.update(metrics);
  write_file_atomically(all_path, sorted_text(all));
  fmt::print("{}", metrics_table(split, metrics));
  std::fflush(stdout);
}

void write_train_results(const TrainerConfig& config, const RunFolder& run, const TrainState& state, const Json& results,
                         const Json& about) {
  if (config.layout == Layout::swift) {
    Json summary = about;
    summary["last_model_checkpoint"] = path_or_null(state.last_model_checkpoint);
    summary["best_model_checkpoint"] = path_or_null(state.best_model_checkpoint);
    summary["best_metric"] = state.best_metric ? Json(*state.best_metric) : Json(nullptr);
    summary["global_step"] = state.global_step;
    summary["log_history"] = state.log_history;
    append_line(run.log_file(config.layout), summary.dump());
    return;
  }
  Json metrics = results;
  metrics["epoch"] = state.epoch;
  write_results(run, "train", metrics);
  write_file_atomically(run.root / "trainer_state.json", state.to_transformers(config).dump(2) + "\n");
}

}  // namespace hone::train
