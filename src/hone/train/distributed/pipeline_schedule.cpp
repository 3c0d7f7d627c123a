#include "hone/train/distributed/pipeline_schedule.h"

#include "hone/device/autograd.h"
#include "hone/model/decoder.h"

namespace hone::train {
namespace {

// The gradient of a stage's input; none if nothing depends on it.
TensorList gradients_of(const TensorList& received) {
  TensorList gradients;
  for (const auto& values : received) gradients.push_back(values.grad().defined() ? values.grad() : at::zeros_like(values));
  return gradients;
}

void go_back(const TensorList& outputs, const TensorList& gradients) {
  torch::autograd::variable_list roots, seeds;
  for (size_t k = 0; k < gradients.size(); ++k)
    if (outputs[k].requires_grad()) roots.push_back(outputs[k]), seeds.push_back(gradients[k]);
  if (!roots.empty()) torch::autograd::backward(roots, seeds);
}

}  // namespace

std::vector<PipelineSchedule::MicroBatch> PipelineSchedule::prepare(Loss& loss, const std::vector<data::Batch>& batches) {
  std::vector<MicroBatch> prepared;
  for (const auto& batch : batches) {
    const auto here = batch.to(device());
    prepared.push_back({loss.request(here), loss.prepare(model_, here)});
  }
  return prepared;
}

ForwardOutputs PipelineSchedule::outputs_of(const data::Batch& batch, parallel::PipelineModel::StageOutput output) const {
  auto hidden_th = model_.final_norm(output.x_th);
  if (auto* region = model_.decoder().region) hidden_th = region->enter(hidden_th, forward_input(batch).size());
  return {.model = model_, .batch = batch, .hidden_th = hidden_th, .router_logits = std::move(output.router_logits)};
}

PipelineSchedule::Output PipelineSchedule::forward(Loss& loss, const MicroBatch& batch, int chunk, const Message& received) {
  const int stage = stages_.stage(chunk);
  auto output = stages_.run_stage(stage, forward_input(batch.request.batch), received, options_.router_logits);
  if (!stages_.is_last_stage(stage)) return {output.message(), std::nullopt};
  return {{}, loss.measure(outputs_of(batch.request.batch, std::move(output)), *batch.payload)};
}

PipelineSchedule::Message PipelineSchedule::received_message(int chunk, const model::ForwardInput& input) {
  const int stage = stages_.stage(chunk);
  if (stage == 0) return {};
  auto received = stages_.receive(stage, input, options_.router_logits);
  const bool trains = options_.trains_before[static_cast<size_t>(chunk)] && at::GradMode::is_enabled();
  for (auto& values : received) values.requires_grad_(trains);
  return received;
}

void PipelineSchedule::forward_step(const parallel::PipelineStep& step, const MicroBatch& batch, const Passes& passes) {
  const int stage = stages_.stage(step.chunk);
  InFlight pass{received_message(step.chunk, forward_input(batch.request.batch)), {}};
  pass.outputs = passes.forward(step.micro_batch, step.chunk, pass.received);
  if (!stages_.is_last_stage(stage)) pass.sending = stages_.send(stage, pass.outputs);
  in_flight_[static_cast<size_t>(step.chunk)].push_back(std::move(pass));
}

PipelineSchedule::InFlight PipelineSchedule::take_oldest(int chunk) {
  auto& passes = in_flight_[static_cast<size_t>(chunk)];
  auto oldest = std::move(passes.front());
  passes.pop_front();
  return oldest;
}

TensorList PipelineSchedule::received_gradients(int chunk, const TensorList& outputs) {
  const bool trains = options_.trains_up_to[static_cast<size_t>(chunk)];
  return trains ? stages_.receive_gradients(stages_.stage(chunk), outputs) : TensorList();
}

// The previous rank receives them in order; a few may be in flight.
void PipelineSchedule::send_gradients(int chunk, const Message& received) {
  constexpr size_t kUnderWay = 2;
  const int stage = stages_.stage(chunk);
  if (stage == 0 || !options_.trains_before[static_cast<size_t>(chunk)]) return;
  sending_.push_back(stages_.send_gradients(stage, gradients_of(received)));
  if (sending_.size() <= kUnderWay) return;
  parallel::wait_for(sending_.front());
  sending_.pop_front();
}

void PipelineSchedule::backward_step(const parallel::PipelineStep& step, bool last, const Passes& passes) {
  auto oldest = take_oldest(step.chunk);
  const bool is_last_stage = stages_.is_last_stage(stages_.stage(step.chunk));
  const auto gradients = is_last_stage ? TensorList() : received_gradients(step.chunk, oldest.outputs);
  passes.before_backward(last);
  if (!is_last_stage)
    go_back(oldest.outputs, gradients);
  else if (oldest.outputs.front().requires_grad())  // not if LISA trains nothing of this stage and those before
    oldest.outputs.front().backward();
  passes.after_backward();
  parallel::wait_for(oldest.sending);
  send_gradients(step.chunk, oldest.received);
}

void PipelineSchedule::run_update(const std::vector<MicroBatch>& batches, const Passes& passes) {
  const auto& layout = stages_.layout();
  forget_passes();
  const auto steps = parallel::pipeline_steps(stages_.rank(), layout.ranks(), layout.chunks(), batches.size());
  for (const auto& step : steps)
    if (step.is_forward)
      forward_step(step, batches[step.micro_batch], passes);
    else
      backward_step(step, &step == &steps.back(), passes);
  finish_sending();
}

std::optional<LossSum> PipelineSchedule::evaluate(Loss& loss, const data::Batch& batch) {
  const auto payload = loss.prepare(model_, batch);
  const auto outputs = run_forward(model_, loss.request(batch));
  if (!stages_.is_last()) return std::nullopt;
  return loss.measure(outputs, *payload);
}

Tensor PipelineSchedule::begin_pass(const data::Batch& batch, at::IntArrayRef shape, const Read& read) {
  const auto input = forward_input(batch);
  auto values = at::empty(shape, at::TensorOptions(at::kFloat).device(device()));
  for (int chunk = 0; chunk < stages_.layout().chunks(); ++chunk) {
    const int stage = stages_.stage(chunk);
    InFlight pass{received_message(chunk, input), {}};
    auto output = stages_.run_stage(stage, input, pass.received, options_.router_logits);
    if (stages_.is_last_stage(stage)) {
      values = read(outputs_of(batch, std::move(output)));
    } else {
      pass.outputs = output.message();
      pass.sending = stages_.send(stage, pass.outputs);
    }
    sending_.push_back(std::move(pass.sending));
    if (at::GradMode::is_enabled()) in_flight_[static_cast<size_t>(chunk)].push_back(std::move(pass));
  }
  auto shared = stages_.is_last() ? values.detach().contiguous() : values;
  stages_.broadcast_from_last(shared);
  finish_sending();
  return stages_.is_last() || !at::GradMode::is_enabled() ? values : values.requires_grad_(true);
}

void PipelineSchedule::end_passes(const Tensor& loss) {
  if (stages_.is_last() && loss.requires_grad()) loss.backward();
  while (!in_flight_.front().empty())
    for (int chunk = stages_.layout().chunks() - 1; chunk >= 0; --chunk) {
      auto oldest = take_oldest(chunk);
      if (!stages_.is_last_stage(stages_.stage(chunk))) go_back(oldest.outputs, received_gradients(chunk, oldest.outputs));
      send_gradients(chunk, oldest.received);
    }
  finish_sending();
}

void PipelineSchedule::finish_sending() {
  for (; !sending_.empty(); sending_.pop_front()) parallel::wait_for(sending_.front());
}

}  // namespace hone::train
