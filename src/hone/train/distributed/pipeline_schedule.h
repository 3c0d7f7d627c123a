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
    int64_t rows_over = 1;       // ranks that rows between blocks are dealt out over (Megatron's sequence parallelism)
    bool router_logits = false;  // the loss reads those of all blocks: they travel with the rows
  };
  PipelineSchedule(model::CausalLM& model, parallel::PipelineModel& stages, Options options)
      : model_(model), stages_(stages), options_(options) {}
  at::Device device() const { return model_.device(); }

  // What a stage hands to the next: rows, and of earlier blocks router logits [blocks, T, experts] where the loss asks for them.
  using Message = TensorList;
  struct Output {
    Message message;              // empty on the last stage
    std::optional<LossSum> loss;  // on the last one
  };
  // This stage's part of a batch, which is on its device; `received` is what the stage before gave.
  Output forward(Loss& method, const data::Batch& batch, const Message& received);

  // Of micro-batch i: forward gives what the next stage receives, or on the last stage the scalar to go back from.
  struct Passes {
    std::function<TensorList(size_t i, const Message& received)> forward;
    std::function<void(size_t i)> before_backward, after_backward;
  };
  void run_update(const std::vector<data::Batch>& batches, const Passes& passes);
  // A pass without gradients; the last stage gets the loss. Every stage calls it with the same batch.
  std::optional<LossSum> evaluate(Loss& method, const data::Batch& batch);

  // A pass whose loss somebody else computes, of what `read` makes of the last stage's outputs: float32 of this shape, the same
  // on every stage. Its gradient counts on the last one, from where end_passes() goes back through all passes begun since.
  using Read = std::function<Tensor(const ForwardOutputs& outputs)>;
  Tensor begin_pass(const data::Batch& batch, at::IntArrayRef shape, const Read& read);
  void end_passes(const Tensor& loss);
  void forget_passes() { in_flight_.clear(); }

 private:
  struct InFlight {
    Message received;
    TensorList outputs;
  };
  Tensor run_blocks(const data::Batch& batch, const Message& received, TensorList& router_logits);
  Message message_of(const Tensor& x_th, TensorList router_logits) const;                            // for the stage behind
  ForwardOutputs outputs_of(data::Batch batch, const Tensor& x_th, TensorList router_logits) const;  // of the last stage
  Message empty_message(const data::Batch& batch) const;                                             // from the stage before
  Message received_message(const data::Batch& batch);
  Message made_ready(Message received) const;
  void send(const TensorList& values, int to);
  void receive(TensorList& values, int from);
  void exchange(const TensorList& sent, TensorList& received, int with);
  TensorList backward(size_t i, const TensorList& gradients, const Passes& passes);
  TensorList send_forward_receive_backward(const TensorList& outputs);
  TensorList receive_backward(const TensorList& outputs);
  void send_backward(const TensorList& gradients);
  Message send_backward_receive_forward(const TensorList& gradients, const data::Batch& next);
  void finish_sending();

  model::CausalLM& model_;
  parallel::PipelineModel& stages_;
  Options options_;
  std::deque<InFlight> in_flight_;
  std::vector<std::unique_ptr<parallel::Work>> sending_;
};

}  // namespace hone::train
