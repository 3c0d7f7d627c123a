// A training method: a loss over the batches its loader builds. Supervised and continued pre-training share one; rewards,
// preferences and policy gradients add theirs in losses/.
#pragma once
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/data/batches/batch.h"
#include "hone/device/tensor.h"
#include "hone/model/causal_lm.h"

namespace hone::train {

class ParallelStrategy;

// Reported as sum / count over a logging window. `sum` stays on the device.
struct Metric {
  std::string name;
  Tensor sum;
  double num_items = 0;
};

struct LossSum {
  Tensor sum;  // scalar, differentiable; never a mean: the trainer divides by the count over all micro-batches and ranks
  std::vector<Metric> metrics;
  Tensor eval_outputs = {};  // in evaluation, what Method::dataset_metrics wants of this batch
};

class Loss {
 public:
  virtual ~Loss() = default;
  // What the summed loss is divided by, known before the forward pass: labeled tokens, pairs, sequences.
  virtual double num_items(const data::Batch& batch) const = 0;
  virtual LossSum loss(model::CausalLM& model, const data::Batch& batch) = 0;
  // Whether the loss is the same launches for every batch of a shape: nothing looks at values on the host.
  virtual bool repeats_launches() const { return false; }
  // Before the first batch: the processes that train together, for losses that look at what all of them found.
  virtual void join(ParallelStrategy& /*group*/) {}
  // What a loss remembers from batch to batch, the same on all processes; null: nothing. A resumed run gets it back.
  virtual Json state() const { return nullptr; }
  virtual void restore(const Json& /*state*/) {}
  // Adds to logged values, whose names begin with `prefix`, what follows from them.
  virtual void add_derived_metrics(Json& /*values*/, const std::string& /*prefix*/) const {}
  // Reported metrics that the progress line shows, each with the word it is shown by.
  virtual std::vector<std::pair<std::string, std::string>> shown_metrics() const { return {}; }
  // Whether batches differ in the names of what they report, so that processes must tell each other.
  virtual bool metrics_vary() const { return false; }
  // What only the rows of a whole validation set together can tell, those of all processes: `kept` of its batches.
  virtual std::vector<std::pair<std::string, double>> dataset_metrics(const std::vector<Tensor>& /*kept*/,
                                                                      ParallelStrategy& /*group*/) const {
    return {};
  }
};

}  // namespace hone::train
