// Evaluation on held-out data: loss and token accuracy by forward passes, text metrics by generation.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/data/batches/loader.h"
#include "hone/train/distributed/parallel_strategy.h"
#include "hone/train/distributed/sequence_split.h"
#include "hone/train/methods/loss.h"

namespace hone::train {

// One pass over `loader`: PREFIX_loss, the method's metrics, runtime, samples and steps per second.
// As in transformers, the loss is the mean over samples of their batch's mean loss. The model's
// mode is restored; random states are not changed. Each process of `group` has its own batches, and
// all get the metrics of the full set. Processes that share each `sequence` get the same batches
// and compute their parts. `kept_rows` receives the LossSum::kept of this process's batches. `max_batches` of each process
// are read; 0: all.
Json evaluate(model::CausalLM& model, Loss& loss, data::Loader& loader, at::Device device, ParallelStrategy& group,
              const std::string& prefix = "eval", const parallel::SequenceParallel* sequence = nullptr,
              std::vector<Tensor>* kept_rows = nullptr, int64_t max_batches = 0);

// A prompt as text, its completion and its reference.
struct Prediction {
  std::string prompt, predict, label;
};
// Generates for the full validation set; provided by the owner of an engine.
using Predict = std::function<std::vector<Prediction>()>;

// PREFIX_rouge-1, -2, -l and PREFIX_bleu-4 over the predictions of all processes, means in percent.
Json text_metrics(const std::vector<Prediction>& predictions, ParallelStrategy& group, const std::string& prefix = "eval");
// generated_predictions.jsonl: {"prompt", "predict", "label"} per line.
void write_predictions(const std::string& path, const std::vector<Prediction>& predictions);

}  // namespace hone::train
