#include "hone/train/distributed/pipeline_schedule.h"

#include <algorithm>

#include "hone/base/fault_injection.h"
#include "hone/model/decoder.h"

namespace hone::train {
namespace {

constexpr int kStageTag = 0;

}  // namespace

PipelineSchedule::Output PipelineSchedule::forward(Loss& method, const data::Batch& batch, const Tensor& received) {
  const auto payload = method.prepare(model_, batch);
  auto request = method.request(batch);
  const auto input = forward_input(request.batch);
  fault("pipeline.forward");
  auto x_th = model_.run_blocks(stages_.is_first() ? model_.embed(input) : received, stages_.begin(), stages_.end(), input);
  if (!stages_.is_last()) return {x_th, std::nullopt};
  auto hidden_th = model_.final_norm(x_th);
  if (auto* region = model_.decoder().region) hidden_th = region->enter(hidden_th, input.size());
  const ForwardOutputs outputs{.model = model_, .batch = std::move(request.batch), .hidden_th = hidden_th};
  return {{}, method.measure(outputs, *payload)};
}

// Every stage has the same rows, so that no shape has to be sent.
Tensor PipelineSchedule::empty_rows(const data::Batch& batch) const {
  const int64_t over = options_.rows_over, rows = (batch.tokens_t.size(0) + over - 1) / over;
  return at::empty({rows, model_.config().hidden_size}, at::TensorOptions(model_.dtype()).device(model_.device()));
}

Tensor PipelineSchedule::made_ready(Tensor received) const {
  return received.requires_grad_(options_.trains_before && at::GradMode::is_enabled());
}

Tensor PipelineSchedule::received_rows(const data::Batch& batch) {
  if (stages_.is_first()) return {};
  auto rows = empty_rows(batch);
  stages_.stages().receive(rows, stages_.stage() - 1, kStageTag)->wait();
  return made_ready(rows);
}

void PipelineSchedule::send(const Tensor& values, int to) {
  sending_.push_back(stages_.stages().send(values.detach().contiguous(), to, kStageTag));
}

Tensor PipelineSchedule::receive_backward(const Tensor& output) {
  if (stages_.is_last() || !options_.trains_up_to) return {};
  auto gradient = at::empty(output.sizes(), output.options().requires_grad(false));
  stages_.stages().receive(gradient, stages_.stage() + 1, kStageTag)->wait();
  return gradient;
}

Tensor PipelineSchedule::send_forward_receive_backward(const Tensor& output) {
  if (stages_.is_last()) return {};
  if (!options_.trains_up_to) {
    send(output, stages_.stage() + 1);
    return {};
  }
  auto gradient = at::empty(output.sizes(), output.options().requires_grad(false));
  const int next = stages_.stage() + 1;
  stages_.stages().exchange(output.detach().contiguous(), next, gradient, next, kStageTag)->wait();
  return gradient;
}

void PipelineSchedule::send_backward(const Tensor& gradient) {
  if (!stages_.is_first() && options_.trains_before) send(gradient, stages_.stage() - 1);
}

Tensor PipelineSchedule::send_backward_receive_forward(const Tensor& gradient, const data::Batch& next) {
  if (stages_.is_first()) return {};
  if (!options_.trains_before) return received_rows(next);
  auto rows = empty_rows(next);
  const int before = stages_.stage() - 1;
  stages_.stages().exchange(gradient.contiguous(), before, rows, before, kStageTag)->wait();
  return made_ready(rows);
}

// The gradient for the stage before, of the oldest micro-batch under way.
Tensor PipelineSchedule::backward(size_t i, const Tensor& gradient, const Passes& passes) {
  const auto oldest = std::move(in_flight_.front());
  in_flight_.pop_front();
  passes.before_backward(i);
  if (oldest.output.requires_grad()) oldest.output.backward(gradient);
  passes.after_backward(i);
  return oldest.received.defined() ? oldest.received.grad() : Tensor();
}

void PipelineSchedule::run_update(const std::vector<data::Batch>& batches, const Passes& passes) {
  const size_t count = batches.size(), behind = static_cast<size_t>(stages_.layout().stages() - 1 - stages_.stage());
  const size_t warm_up = std::min(behind, count);
  const int next = stages_.stage() + 1;
  auto forward = [&](size_t i, const Tensor& received) {
    in_flight_.push_back({received, passes.forward(i, received)});
    return in_flight_.back().output;
  };
  for (size_t i = 0; i < warm_up; ++i) send(forward(i, received_rows(batches[i])), next);
  auto received = warm_up < count ? received_rows(batches[warm_up]) : Tensor();
  for (size_t i = warm_up; i < count; ++i) {
    const auto gradient = send_forward_receive_backward(forward(i, received));
    const auto back = backward(i - warm_up, gradient, passes);
    if (i + 1 < count)
      received = send_backward_receive_forward(back, batches[i + 1]);
    else
      send_backward(back);
  }
  for (size_t i = count - warm_up; i < count; ++i)
    send_backward(backward(i, receive_backward(in_flight_.front().output), passes));
  finish_sending();
}

std::optional<LossSum> PipelineSchedule::evaluate(Loss& method, const data::Batch& batch) {
  auto output = forward(method, batch, received_rows(batch));
  if (!stages_.is_last()) send(output.x_th, stages_.stage() + 1);
  finish_sending();
  return output.loss;
}

void PipelineSchedule::finish_sending() {
  for (auto& work : sending_) work->wait();
  sending_.clear();
}

}  // namespace hone::train
