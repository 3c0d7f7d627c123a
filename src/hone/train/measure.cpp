#include "hone/train/measure.h"

#include <cmath>

#include "hone/data/sources.h"
#include "hone/train/losses/reward.h"
#include "hone/train/make_method.h"
#include "hone/train/results.h"

namespace hone::train {
namespace {

// Generated answers, by a model that is whole on every process for as long as it takes.
std::vector<Prediction> predict(const TrainingJob& job, const Prepared& ready, LoadedModel& loaded, bool main) {
  if (loaded.sharded) loaded.sharded->hold_whole(true);
  auto predictions = main ? predictor_of(job, ready, *loaded.model, {})() : std::vector<Prediction>();
  if (loaded.sharded) loaded.sharded->hold_whole(false);
  return predictions;
}

// A reward model's predictions are the scores of both answers.
void predict_scores(const TrainingJob& job, const Prepared& ready, LoadedModel& loaded, bool main) {
  SoloGroup alone;
  auto method = make_method(job, *ready.tokenizer, loaded.reference.get());
  auto config = job.eval_loader;
  config.called = "the validation data";
  auto loader = data::make_loader(ready.data.validation, ready.encoder, config, ready.report);
  std::vector<Tensor> scores;
  auto metrics = evaluate(*loaded.model, *method, *loader, loaded.model->device(), alone, "predict", nullptr, &scores);
  if (!main) return;
  write_pair_scores((ready.run.root / "generated_predictions.jsonl").string(), scores);
  write_results(ready.run, "predict", metrics);
}

void round_weights(model::CausalLM& model, at::ScalarType type) {
  at::NoGradGuard no_grad;
  for (const auto& list : {model.parameters(), model.adapter_parameters()})
    for (const auto& [name, value] : list) value->set_data(value->to(type));
}

}  // namespace

std::vector<EvaluationSet> evaluations_of(const TrainingJob& job, const Prepared& ready, Share share) {
  auto config = job.eval_loader;
  config.deal_batches = true;
  config.called = "the validation data";
  config.rank = share.rank;
  config.world = share.world;
  settle_mates(job, share.world, config);
  std::vector<EvaluationSet> sets;
  for (const auto& [prefix, rows] : validation_sets(ready.data)) {
    auto place = sets.size();
    if (ready.rollouts)
      sets.push_back({prefix, [place, config, &ready] { return ready.rollouts->evaluation(ready.validation_prompts[place], config.batch_size); }});
    else
      sets.push_back({prefix, [config, rows, &ready] { return data::make_loader(rows, ready.encoder, config, ready.report); }});
  }
  return sets;
}

Predict predictor_of(const TrainingJob& job, const Prepared& ready, model::CausalLM& model, Share share) {
  if (!ready.data.validation) return {};
  data::RowOrder rows;
  for (int64_t row = share.rank; row < ready.data.validation->size(); row += share.world) rows.push_back(static_cast<uint32_t>(row));
  auto own = data::select_source(ready.data.validation, std::move(rows));
  return [&job, &ready, &model, own] { return predict_answers(model, ready.tokenizer, *ready.encoder, *own, job.generation); };
}

void measure(const TrainingJob& job, const Prepared& ready, LoadedModel& loaded, const Finished* finished, bool main) {
  if (!main && !loaded.sharded) return;
  SoloGroup alone;  // everyone who takes part goes through the whole set
  if (job.measured_in) round_weights(*loaded.model, *job.measured_in);
  if (job.do_eval && ready.data.validation && !job.reinforcement) {  // whose answers were judged after the last step
    auto method = make_method(job, *ready.tokenizer, loaded.reference.get());
    if (finished && !finished->method_state.is_null()) method->restore(finished->method_state);
    Json metrics = Json::object();
    for (const auto& [prefix, make_loader] : evaluations_of(job, ready, {})) {
      metrics.update(evaluate(*loaded.model, *method, *make_loader(), loaded.model->device(), alone, prefix));
      if (job.stage == "pt") metrics[prefix + "_perplexity"] = std::exp(metrics[prefix + "_loss"].get<double>());
    }
    if (job.predict_with_generate) metrics.update(text_metrics(predict(job, ready, loaded, main), alone));
    if (finished) metrics["epoch"] = finished->state.epoch;
    if (main) write_results(ready.run, "eval", metrics);
  }
  if (job.do_predict && ready.data.validation && job.preference.method == Preference::rm) return predict_scores(job, ready, loaded, main);
  if (job.do_predict && ready.data.validation) {
    auto predictions = predict(job, ready, loaded, main);
    if (!main) return;
    write_predictions((ready.run.root / "generated_predictions.jsonl").string(), predictions);
    write_results(ready.run, "predict", text_metrics(predictions, alone, "predict"));
  }
}

}  // namespace hone::train
