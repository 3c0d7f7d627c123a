// One stage of a pipeline at work: the micro-batches of a step pass through it, one forward, one backward (1F1B), so that a stage
// keeps the activations of no more micro-batches than there are stages behind it.
#pragma once
#include <deque>
#include <functional>

#include "hone/parallel/pipeline/pipeline_model.h"
#include "hone/train/methods/loss.h"

namespace hone::train {

class PipelineSchedule {
 public:
  struct Options {
    bool trains_before = true, trains_up_to = true;  // in the stages before this one; in those and this one
    int64_t rows_over = 1;  // ranks that rows between blocks are dealt out over (Megatron's sequence parallelism)
  };
  PipelineSchedule(model::CausalLM& model, parallel::PipelineModel& stages, Options options)
      : model_(model), stages_(stages), options_(options) {}

  at::Device device() const { return model_.device(); }

  struct Output {
    Tensor x_th;                  // for the next stage; undefined on the last one
    std::optional<LossSum> loss;  // on the last one
  };
  // This stage's part of a batch, which is on its device; `received` is what the stage before gave.
  Output forward(Loss& method, const data::Batch& batch, const Tensor& received);

  // Of micro-batch i: forward gives what the next stage receives, or on the last stage the scalar to go back from.
  struct Passes {
    std::function<Tensor(size_t i, const Tensor& received)> forward;
    std::function<void(size_t i)> before_backward, after_backward;
  };
  void run_update(const std::vector<data::Batch>& batches, const Passes& passes);
  // A pass without gradients; the last stage gets the loss. Every stage calls it with the same batch.
  std::optional<LossSum> evaluate(Loss& method, const data::Batch& batch);

 private:
  struct InFlight {
    Tensor received, output;
  };
  Tensor empty_rows(const data::Batch& batch) const;  // of what passes between stages
  Tensor received_rows(const data::Batch& batch);
  Tensor made_ready(Tensor received) const;
  void send(const Tensor& values, int to);
  Tensor backward(size_t i, const Tensor& gradient, const Passes& passes);
  Tensor send_forward_receive_backward(const Tensor& output);
  Tensor receive_backward(const Tensor& output);
  void send_backward(const Tensor& gradient);
  Tensor send_backward_receive_forward(const Tensor& gradient, const data::Batch& next);
  void finish_sending();

  model::CausalLM& model_;
  parallel::PipelineModel& stages_;
  Options options_;
  std::deque<InFlight> in_flight_;
  std::vector<std::unique_ptr<parallel::Work>> sending_;
};

}  // namespace hone::train
