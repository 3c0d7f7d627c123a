// A training method: a loss of what the model computes of a batch. The trainer runs the passes (forward_pass.h); a loss says what
// it needs of them and sums up. Each method has a payload of its own type, which its collator makes (make_loss.h).
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
  Tensor eval_outputs = {};  // in evaluation, what Method::dataset_metrics needs of this batch
};

class Loss {
 public:
  virtual ~Loss() = default;
  // What the summed loss is divided by, known before the forward pass: labeled tokens, pairs, sequences.
  virtual double num_items(const data::Batch& batch) const = 0;
  // Of a batch on the model's device, in this order: the payload with what other models say of the batch (the reference, a
  // teacher), what the pass that trains is to bring, and the loss of what it brought.
  virtual std::unique_ptr<data::Payload> prepare(model::CausalLM& model, const data::Batch& batch) = 0;
  virtual ForwardRequest request(const data::Batch& batch) const { return {.batch = batch}; }
  virtual LossSum measure(const ForwardOutputs& outputs, const data::Payload& payload) = 0;
  // Whether the loss is the same launches for every batch of a shape: nothing looks at values on the host.
  virtual bool repeats_launches() const { return false; }
  // Before the first batch: the processes that train together, for losses that look at what all of them found.
  virtual void join(ParallelStrategy& /*group*/) {}
  // The same: batches are parts of sequences, whose others are on other processes. What a loss counts, it counts on the first.
  virtual void split_sequences(const parallel::SequenceParallel& /*sequence*/) {}
  // The part of the loss that a value model computes where it passes through pipeline stages by itself; null: there is none.
  virtual Loss* value_loss() { return nullptr; }
  // State that a loss keeps between batches, the same on all processes; null: none. A resumed run gets it back.
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

// A loss whose payload is an `Own`; batches that carry none have an empty one.
template <class Own>
class LossOf : public Loss {
 public:
  virtual LossSum loss(const ForwardOutputs& outputs, const Own& payload) = 0;
  // Before the pass that trains: runs the models that do not train and puts their outputs into the payload.
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

// A batch, which is on the model's device, up to its loss: everything but the backward pass.
LossSum forward_loss(model::CausalLM& model, Loss& method, const data::Batch& batch);

// Numbers about how a batch came to be, as metrics.
std::vector<Metric> batch_metrics(const data::Batch& batch);

}  // namespace hone::train
