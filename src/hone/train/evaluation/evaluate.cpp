#include "hone/train/evaluation/evaluate.h"

#include <chrono>
#include <cmath>

#include "hone/base/file.h"
#include "hone/base/progress.h"
#include "hone/train/distributed/metric_reduction.h"
#include "hone/train/distributed/pipeline_schedule.h"
#include "hone/train/evaluation/evaluation_mode.h"
#include "hone/train/evaluation/nlg_metrics.h"

namespace hone::train {
namespace {

double rounded(double value, double parts) { return std::round(value * parts) / parts; }

}  // namespace

Json evaluate(model::CausalLM& model, Loss& loss, data::Loader& loader, at::Device device, ParallelStrategy& group,
              const std::string& prefix, const parallel::SequenceParallel* sequence, std::vector<Tensor>* kept_rows,
              int64_t max_batches) {
  EvaluationMode mode(model);
  auto began = std::chrono::steady_clock::now();
  // Stored as named sums and counts, so that processes whose batches have different channels can be added.
  SumsByName sums;
  const int64_t batches_here = loader.batches_per_epoch();
  ProgressBar bar("Val", max_batches > 0 ? std::min(max_batches, batches_here) : batches_here);
  std::vector<Tensor> kept;
  bool dealt = batches_here > 0;
  data::Batch batch;
  for (int64_t pass = 1;; ++pass) {
    bool counts = dealt && loader.epoch() < 1 && (max_batches == 0 || pass <= max_batches);
    if (group.sum(counts ? 1 : 0) == 0) break;
    // A finished process repeats its last batch uncounted: a distributed model needs all processes in every pass.
    if (counts || !batch.tokens_t.defined()) batch = loader.next();
    auto part = sequence ? own_part(batch, *sequence) : batch;
    auto* pipeline = group.pipeline();
    auto found = pipeline ? pipeline->evaluate(loss, part.to(device)) : forward_loss(model, loss, part.to(device));
    if (!counts || !group.counts_rows()) continue;
    const auto& computed = *found;
    double samples = static_cast<double>(batch.sample_count), own = !sequence || sequence->is_first_rank() ? 1 : 0;
    sums["loss"] += {computed.sum.item<double>() / std::max(loss.num_items(batch), 1.0) * samples, own * samples};
    sums["batches"] += {own, own};
    for (const auto& metric : computed.metrics) sums[metric.name] += {metric.sum.item<double>(), metric.num_items};
    if (computed.eval_outputs.defined()) kept.push_back(computed.eval_outputs);
    bar.update(pass);
  }
  bar.finish();
  if (kept_rows) *kept_rows = kept;
  all_reduce_metrics(sums, group);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  double samples = sums["loss"].count, batches = sums["batches"].count;
  Json result{{prefix + "_loss", sums["loss"].mean()}};
  for (const auto& [name, total] : sums)
    if (total.count > 0 && name != "loss" && name != "batches") result[prefix + "_" + name] = total.mean();
  loss.add_derived_metrics(result, prefix + "_");
  for (const auto& [name, value] : loss.dataset_metrics(kept, group)) result[prefix + "_" + name] = value;
  result[prefix + "_runtime"] = rounded(seconds, 1e4);
  result[prefix + "_samples_per_second"] = rounded(samples / seconds, 1e3);
  result[prefix + "_steps_per_second"] = rounded(batches / seconds, 1e3);
  return result;
}

Json text_metrics(const std::vector<Prediction>& predictions, ParallelStrategy& group, const std::string& prefix) {
  SumsByName sums{{"bleu-4", {}}, {"rouge-1", {}}, {"rouge-2", {}}, {"rouge-l", {}}};
  for (const auto& prediction : predictions) {
    auto scores = score_text(prediction.predict, prediction.label);
    sums["bleu-4"] += {scores.bleu_4, 1};
    sums["rouge-1"] += {scores.rouge_1, 1};
    sums["rouge-2"] += {scores.rouge_2, 1};
    sums["rouge-l"] += {scores.rouge_l, 1};
  }
  all_reduce_metrics(sums, group);
  Json means;
  for (const auto& [name, total] : sums) means[prefix + "_" + name] = total.mean();
  return means;
}

void write_predictions(const std::string& path, const std::vector<Prediction>& predictions) {
  std::string lines;
  for (const auto& [prompt, predict, label] : predictions) {
    Json line{{"prompt", prompt}, {"predict", predict}, {"label", label}};
    lines += line.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
  }
  write_file_atomically(path, lines);
}

}  // namespace hone::train
