#include "hone/train/distributed/pipeline_schedule.h"

#include <algorithm>

#include "hone/base/fault_injection.h"
#include "hone/device/autograd.h"
#include "hone/model/decoder.h"

namespace hone::train {
namespace {

constexpr int kStageTag = 0;

TensorList empty_gradients(const TensorList& outputs) {
  TensorList gradients;
  for (const auto& output : outputs) gradients.push_back(at::empty(output.sizes(), output.options().requires_grad(false)));
  return gradients;
}

// Of what a stage received; what nothing depended on has none.
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

TensorList unstacked(const PipelineSchedule::Message& message) {
  return message.size() > 1 ? message[1].unbind(0) : TensorList();
}

}  // namespace

Tensor PipelineSchedule::run_blocks(const data::Batch& batch, const Message& received, TensorList& router_logits) {
  const auto input = forward_input(batch);
  fault("pipeline.forward");
  return model_.run_blocks(stages_.is_first() ? model_.embed(input) : received.front(), stages_.begin(), stages_.end(), input,
                           nullptr, options_.router_logits ? &router_logits : nullptr);
}

PipelineSchedule::Message PipelineSchedule::message_of(const Tensor& x_th, TensorList router_logits) const {
  Message message{x_th};
  for (auto& logits_te : router_logits) logits_te = logits_te.to(at::kFloat);
  if (!router_logits.empty()) message.push_back(at::stack(router_logits));
  return message;
}

ForwardOutputs PipelineSchedule::outputs_of(data::Batch batch, const Tensor& x_th, TensorList router_logits) const {
  auto hidden_th = model_.final_norm(x_th);
  if (auto* region = model_.decoder().region) hidden_th = region->enter(hidden_th, forward_input(batch).size());
  return {.model = model_, .batch = std::move(batch), .hidden_th = hidden_th, .router_logits = std::move(router_logits)};
}

PipelineSchedule::Output PipelineSchedule::forward(Loss& method, const data::Batch& batch, const Message& received) {
  const auto payload = method.prepare(model_, batch);
  auto request = method.request(batch);
  TensorList router_logits = unstacked(received);
  const auto x_th = run_blocks(request.batch, received, router_logits);
  if (!stages_.is_last()) return {message_of(x_th, std::move(router_logits)), std::nullopt};
  return {{}, method.measure(outputs_of(std::move(request.batch), x_th, std::move(router_logits)), *payload)};
}

// Every stage has the same rows, so that no shape has to be sent.
PipelineSchedule::Message PipelineSchedule::empty_message(const data::Batch& batch) const {
  const auto& config = model_.config();
  const auto options = at::TensorOptions(model_.dtype()).device(model_.device());
  const int64_t over = options_.rows_over, tokens = batch.tokens_t.size(0);
  Message message{at::empty({(tokens + over - 1) / over, config.hidden_size}, options)};
  int64_t mixtures = 0;
  for (int64_t block = 0; block < stages_.begin() && options_.router_logits; ++block)
    mixtures += config.has_experts(block) ? 1 : 0;
  if (mixtures > 0) message.push_back(at::empty({mixtures, tokens, config.experts.count}, options.dtype(at::kFloat)));
  return message;
}

PipelineSchedule::Message PipelineSchedule::made_ready(Message received) const {
  for (auto& values : received) values.requires_grad_(options_.trains_before && at::GradMode::is_enabled());
  return received;
}

void PipelineSchedule::send(const TensorList& values, int to) {
  for (const auto& each : values) sending_.push_back(stages_.stages().send(each.detach().contiguous(), to, kStageTag));
}

void PipelineSchedule::receive(TensorList& values, int from) {
  for (auto& each : values) stages_.stages().receive(each, from, kStageTag)->wait();
}

// Both have as many tensors in the same order, since gradients are of what was sent the other way.
void PipelineSchedule::exchange(const TensorList& sent, TensorList& received, int with) {
  const size_t both = std::min(sent.size(), received.size());
  for (size_t i = 0; i < both; ++i)
    stages_.stages().exchange(sent[i].detach().contiguous(), with, received[i], with, kStageTag)->wait();
}

PipelineSchedule::Message PipelineSchedule::received_message(const data::Batch& batch) {
  if (stages_.is_first()) return {};
  auto message = empty_message(batch);
  receive(message, stages_.stage() - 1);
  return made_ready(std::move(message));
}

TensorList PipelineSchedule::receive_backward(const TensorList& outputs) {
  if (stages_.is_last() || !options_.trains_up_to) return {};
  auto gradients = empty_gradients(outputs);
  receive(gradients, stages_.stage() + 1);
  return gradients;
}

TensorList PipelineSchedule::send_forward_receive_backward(const TensorList& outputs) {
  if (stages_.is_last()) return {};
  const int next = stages_.stage() + 1;
  if (!options_.trains_up_to) {
    send(outputs, next);
    return {};
  }
  // Of an older micro-batch, whose rows are others.
  auto gradients = empty_gradients(in_flight_.front().outputs);
  exchange(outputs, gradients, next);
  return gradients;
}

void PipelineSchedule::send_backward(const TensorList& gradients) {
  if (!stages_.is_first() && options_.trains_before) send(gradients, stages_.stage() - 1);
}

PipelineSchedule::Message PipelineSchedule::send_backward_receive_forward(const TensorList& gradients, const data::Batch& next) {
  if (stages_.is_first() || !options_.trains_before) return received_message(next);
  auto message = empty_message(next);
  exchange(gradients, message, stages_.stage() - 1);
  return made_ready(std::move(message));
}

// The gradients for the stage before, of the oldest micro-batch under way.
TensorList PipelineSchedule::backward(size_t i, const TensorList& gradients, const Passes& passes) {
  const auto oldest = std::move(in_flight_.front());
  in_flight_.pop_front();
  passes.before_backward(i);
  if (stages_.is_last())
    oldest.outputs.front().backward();
  else
    go_back(oldest.outputs, gradients);
  passes.after_backward(i);
  return options_.trains_before ? gradients_of(oldest.received) : TensorList();
}

void PipelineSchedule::run_update(const std::vector<data::Batch>& batches, const Passes& passes) {
  const size_t count = batches.size(), behind = static_cast<size_t>(stages_.layout().stages() - 1 - stages_.stage());
  const size_t warm_up = std::min(behind, count);
  const int next = stages_.stage() + 1;
  in_flight_.clear();
  auto forward = [&](size_t i, const Message& received) {
    in_flight_.push_back({received, passes.forward(i, received)});
    return in_flight_.back().outputs;
  };
  for (size_t i = 0; i < warm_up; ++i) send(forward(i, received_message(batches[i])), next);
  auto received = warm_up < count ? received_message(batches[warm_up]) : Message();
  for (size_t i = warm_up; i < count; ++i) {
    const auto gradients = send_forward_receive_backward(forward(i, received));
    const auto back = backward(i - warm_up, gradients, passes);
    if (i + 1 < count)
      received = send_backward_receive_forward(back, batches[i + 1]);
    else
      send_backward(back);
  }
  for (size_t i = count - warm_up; i < count; ++i)
    send_backward(backward(i, receive_backward(in_flight_.front().outputs), passes));
  finish_sending();
}

std::optional<LossSum> PipelineSchedule::evaluate(Loss& method, const data::Batch& batch) {
  auto output = forward(method, batch, received_message(batch));
  if (!stages_.is_last()) send(output.message, stages_.stage() + 1);
  finish_sending();
  return output.loss;
}

Tensor PipelineSchedule::begin_pass(const data::Batch& batch, at::IntArrayRef shape, const Read& read) {
  auto received = received_message(batch);
  TensorList router_logits = unstacked(received), outputs;
  const auto x_th = run_blocks(batch, received, router_logits);
  Tensor values;
  if (stages_.is_last()) {
    values = read(outputs_of(batch, x_th, std::move(router_logits)));
  } else {
    outputs = message_of(x_th, std::move(router_logits));
    send(outputs, stages_.stage() + 1);
    values = at::empty(shape, at::TensorOptions(at::kFloat).device(device()));
  }
  auto shared = stages_.is_last() ? values.detach().contiguous() : values;
  stages_.stages().broadcast(shared, stages_.layout().stages() - 1);
  finish_sending();
  if (!at::GradMode::is_enabled()) return values;
  in_flight_.push_back({std::move(received), std::move(outputs)});
  return stages_.is_last() ? values : values.requires_grad_(true);
}

void PipelineSchedule::end_passes(const Tensor& loss) {
  if (stages_.is_last()) loss.backward();
  for (; !in_flight_.empty(); in_flight_.pop_front()) {
    const auto& pass = in_flight_.front();
    go_back(pass.outputs, receive_backward(pass.outputs));
    if (options_.trains_before) send_backward(gradients_of(pass.received));
  }
  finish_sending();
}

void PipelineSchedule::finish_sending() {
  for (auto& work : sending_) work->wait();
  sending_.clear();
}

}  // namespace hone::train
