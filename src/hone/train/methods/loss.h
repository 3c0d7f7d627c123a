// A training method: a loss of the model's outputs for a batch. The trainer runs the passes (forward_pass.h); a loss declares
// what it needs and returns a sum. Each method has its own payload type, made by its collator (make_loss.h).
#pragma once
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/data/batches/batch.h"
#include "hone/device/tensor.h"
#include "hone/train/methods/forward_pass.h"

namespace hone::parallel {
class SequenceParallel;
}

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
  Tensor eval_outputs = {};  // in evaluation, what Loss::dataset_metrics needs of this batch
};

class Loss {
 public:
  virtual ~Loss() = default;
  // The denominator of the summed loss, known before the forward pass: labeled tokens, pairs, sequences.
  virtual double num_items(const data::Batch& batch) const = 0;
  // For a batch on the model's device, in this order: the payload with outputs of other models (the reference, a teacher), the
  // requested outputs of the training pass, and the loss.
  virtual std::unique_ptr<data::Payload> prepare(model::CausalLM& model, const data::Batch& batch) = 0;
  virtual ForwardRequest request(const data::Batch& batch) const { return {.batch = batch}; }
  virtual LossSum measure(const ForwardOutputs& outputs, const data::Payload& payload) = 0;
  // Whether the loss makes the same launches for every batch of a shape: nothing reads values on the host.
  virtual bool repeats_launches() const { return false; }
  // Called before the first batch: the processes that train together, for losses that use global statistics.
  virtual void join(ParallelStrategy& /*strategy*/) {}
  // The same if batches are parts of sequences split over processes. The loss counts items on the first one.
  virtual void split_sequences(const parallel::SequenceParallel& /*sequence*/) {}
  // The part of the loss that a value model computes in its own passes through pipeline stages; null: there is none.
  virtual Loss* value_loss() { return nullptr; }
  // State that a loss keeps between batches, the same on all processes; null: none. A resumed run gets it back.
  virtual Json state() const { return nullptr; }
  virtual void restore(const Json& /*state*/) {}
  // Adds derived metrics to logged values, whose names start with `prefix`.
  virtual void add_derived_metrics(Json& /*values*/, const std::string& /*prefix*/) const {}
  // Metrics that the progress line shows, each with its label.
  virtual std::vector<std::pair<std::string, std::string>> shown_metrics() const { return {}; }
  // Whether metric names differ between batches, so that processes must synchronize them.
  virtual bool metrics_vary() const { return false; }
  // Metrics over a full validation set and all processes, from `kept` of its batches.
  virtual std::vector<std::pair<std::string, double>> dataset_metrics(const std::vector<Tensor>& /*kept*/,
                                                                      ParallelStrategy& /*group*/) const {
    return {};
  }
};

// A loss whose payload is an `Own`; batches without one have an empty one.
template <class Own>
class LossOf : public Loss {
 public:
  virtual LossSum loss(const ForwardOutputs& outputs, const Own& payload) = 0;
  // Called before the training pass: runs frozen models and puts their outputs into the payload.
  virtual void consult(model::CausalLM& /*model*/, const data::Batch& /*batch*/, Own& /*payload*/) {}

  std::unique_ptr<data::Payload> prepare(model::CausalLM& model, const data::Batch& batch) final {
    auto payload = batch.payload ? std::make_unique<Own>(data::payload_as<Own>(*batch.payload)) : std::make_unique<Own>();
    consult(model, batch, *payload);
    return payload;
  }
  LossSum measure(const ForwardOutputs& outputs, const data::Payload& payload) final {
    return loss(outputs, data::payload_as<Own>(payload));
  }
};

// Computes the loss of a batch on the model's device: everything but the backward pass.
LossSum forward_loss(model::CausalLM& model, Loss& loss, const data::Batch& batch);
// The backward pass: adds the gradients, scaled by `factor`, to those of the parameters.
void backward_loss(const LossSum& loss, double factor);

// Metrics of how a batch was made.
std::vector<Metric> batch_metrics(const data::Batch& batch);

}  // namespace hone::train
