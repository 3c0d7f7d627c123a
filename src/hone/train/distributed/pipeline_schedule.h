// Runs the micro-batches of a step through the stages of a pipeline rank in the order of 1F1B (pipeline_steps.h), so that it
// keeps the activations of few micro-batches at a time.
#pragma once
#include <deque>
#include <functional>

#include "hone/parallel/pipeline/pipeline_model.h"
#include "hone/parallel/pipeline/pipeline_steps.h"
#include "hone/train/methods/loss.h"

namespace hone::train {

class PipelineSchedule {
 public:
  struct Options {
    // For each stage of the rank: whether any parameter trains in the stages before it, and in those and itself.
    std::vector<bool> trains_before, trains_up_to;
    bool router_logits = false;  // the loss reads those of all blocks: they are sent with the hidden states
  };
  PipelineSchedule(model::CausalLM& model, parallel::PipelineModel& stages, Options options)
      : model_(model), stages_(stages), options_(std::move(options)) {
    forget_passes();
  }
  at::Device device() const { return model_.device(); }

  // Prepares a batch before it passes through the stages. Models that do not train run here, each in separate passes, before the
  // first micro-batch that trains.
  struct MicroBatch {
    ForwardRequest request;
    std::unique_ptr<data::Payload> payload;
  };
  std::vector<MicroBatch> prepare(Loss& loss, const std::vector<data::Batch>& batches);

  using Message = parallel::PipelineModel::Message;
  struct Output {
    Message message;              // empty on the last stage
    std::optional<LossSum> loss;  // on the last one
  };
  // Runs one of this rank's stages; `received` is the output of the previous stage.
  Output forward(Loss& loss, const MicroBatch& batch, int chunk, const Message& received);

  // For micro-batch i, forward returns the message for the next stage, or on the last stage the scalar for backward.
  struct Passes {
    std::function<TensorList(size_t i, int chunk, const Message& received)> forward;
    std::function<void(bool last)> before_backward;
    std::function<void()> after_backward;
  };
  void run_update(const std::vector<MicroBatch>& batches, const Passes& passes);
  // A pass without gradients; the last rank gets the loss. Every rank calls it with the same batch, which is on its device.
  std::optional<LossSum> evaluate(Loss& loss, const data::Batch& batch);

  // The `own` of the last stage, which computes losses; every rank calls it.
  Json of_last_stage(const Json& own) const { return Json::parse(stages_.stages().gather_text(own.dump()).back()); }

  // A pass whose loss the caller computes from `read` of the last stage's outputs: float32 of this shape, the same on every rank.
  // Its gradient counts on the last one, from which end_passes() runs backward through all passes begun since.
  using Read = std::function<Tensor(const ForwardOutputs& outputs)>;
  Tensor begin_pass(const data::Batch& batch, at::IntArrayRef shape, const Read& read);
  void end_passes(const Tensor& loss);
  void forget_passes() { in_flight_ = std::vector<std::deque<InFlight>>(static_cast<size_t>(stages_.layout().chunks())); }

 private:
  struct InFlight {
    Message received;
    TensorList outputs;
    parallel::PipelineModel::Sending sending = {};
  };
  Message received_message(int chunk, const model::ForwardInput& input);
  ForwardOutputs outputs_of(const data::Batch& batch, parallel::PipelineModel::StageOutput output) const;  // of the last stage
  void forward_step(const parallel::PipelineStep& step, const MicroBatch& batch, const Passes& passes);
  void backward_step(const parallel::PipelineStep& step, bool last, const Passes& passes);
  InFlight take_oldest(int chunk);
  TensorList received_gradients(int chunk, const TensorList& outputs);
  void send_gradients(int chunk, const Message& received);
  void finish_sending();

  model::CausalLM& model_;
  parallel::PipelineModel& stages_;
  Options options_;
  std::vector<std::deque<InFlight>> in_flight_;           // of each chunk, the oldest micro-batch first
  std::deque<parallel::PipelineModel::Sending> sending_;  // pending sends of gradients
};

}  // namespace hone::train
