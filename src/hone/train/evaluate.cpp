#include "hone/train/evaluate.h"

#include <chrono>
#include <cmath>
#include <map>

#include "hone/base/file.h"
#include "hone/base/progress.h"
#include "hone/train/nlg_metrics.h"

namespace hone::train {
namespace {

class EvaluationMode {
 public:
  explicit EvaluationMode(model::CausalLM& model) : model_(model), before_(model.training()) { model_.set_training(false); }
  ~EvaluationMode() { model_.set_training(before_); }

 private:
  model::CausalLM& model_;
  bool before_;
  at::NoGradGuard no_grad_;
};

double rounded(double value, double parts) { return std::round(value * parts) / parts; }

}  // namespace

Json evaluate(model::CausalLM& model, Method& method, data::Loader& loader, at::Device device, const std::string& prefix) {
  EvaluationMode mode(model);
  auto began = std::chrono::steady_clock::now();
  int64_t batches = loader.batches_per_epoch(), samples = 0;
  double weighted_loss = 0;
  std::map<std::string, std::pair<double, double>> metrics;
  ProgressBar bar("Val", batches);
  for (int64_t i = 0; i < batches; ++i) {
    auto batch = loader.next().to(device);
    auto loss = method.loss(model, batch);
    auto count = std::max(method.count(batch), 1.0);
    weighted_loss += loss.sum.item<double>() / count * static_cast<double>(batch.sample_count);
    samples += batch.sample_count;
    for (const auto& metric : loss.metrics) {
      metrics[metric.name].first += metric.sum.item<double>();
      metrics[metric.name].second += metric.count;
    }
    bar.update(i + 1);
  }
  bar.finish();
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  Json result{{prefix + "_loss", samples > 0 ? weighted_loss / static_cast<double>(samples) : 0.0}};
  for (const auto& [name, total] : metrics)
    if (total.second > 0) result[prefix + "_" + name] = total.first / total.second;
  result[prefix + "_runtime"] = rounded(seconds, 1e4);
  result[prefix + "_samples_per_second"] = rounded(static_cast<double>(samples) / seconds, 1e3);
  result[prefix + "_steps_per_second"] = rounded(static_cast<double>(batches) / seconds, 1e3);
  return result;
}

Json text_metrics(const std::vector<Prediction>& predictions, const std::string& prefix) {
  TextScores total;
  for (const auto& prediction : predictions) {
    auto scores = score_text(prediction.predict, prediction.label);
    total.rouge_1 += scores.rouge_1;
    total.rouge_2 += scores.rouge_2;
    total.rouge_l += scores.rouge_l;
    total.bleu_4 += scores.bleu_4;
  }
  auto mean = [&](double sum) { return predictions.empty() ? 0.0 : sum / static_cast<double>(predictions.size()); };
  return {{prefix + "_bleu-4", mean(total.bleu_4)},
          {prefix + "_rouge-1", mean(total.rouge_1)},
          {prefix + "_rouge-2", mean(total.rouge_2)},
          {prefix + "_rouge-l", mean(total.rouge_l)}};
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
