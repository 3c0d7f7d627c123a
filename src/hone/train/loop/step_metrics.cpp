#include "hone/train/loop/step_metrics.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <cmath>

#include "hone/train/distributed/metric_reduction.h"

namespace hone::train {
namespace {

// A key that no metric has, since metric names are words.
constexpr const char* kLoss = "+loss";
constexpr const char* kStops = "+stops";

}  // namespace

void StepMetrics::add(const LossSum& loss) {
  auto sum = loss.sum.detach().to(at::kFloat);
  loss_ = loss_.defined() ? loss_ + sum : sum;
  for (const auto& metric : loss.metrics) {
    auto& total = metrics_[metric.name];
    auto fresh = metric.sum.detach().to(at::kFloat);
    total.sum = total.sum.defined() ? total.sum + fresh : fresh;
    total.num_items += metric.num_items;
  }
}

StepReading StepMetrics::read(const Tensor& grad_norm, double num_items, bool stop_requested, ParallelStrategy& strategy) const {
  StepReading reading;
  const double share = strategy.counts_rows() ? 1 : 0;
  TensorList sums{loss_.defined() ? loss_.reshape({}) : at::zeros({}, grad_norm.options().dtype(at::kFloat))};
  reading.counts_ = {stop_requested ? 1.0 : 0.0};
  for (const auto& [name, metric] : metrics_) {
    sums.push_back(metric.sum.reshape({}));
    reading.names_.push_back(name);
    reading.counts_.push_back(metric.num_items * share);
  }
  Tensor packed = share == 1 ? at::stack(sums) : at::stack(sums) * share;  // non-finite values stay non-finite
  reading.summed_here_ = strategy.size() > 1 && !names_vary_;
  if (reading.summed_here_) {
    packed = at::cat({packed, at::tensor(reading.counts_).to(packed.options())});
    strategy.all_reduce(packed);
  }
  packed = at::cat({grad_norm.reshape({1}).to(packed.device(), at::kFloat), packed});  // an offloaded norm is on the host
  reading.num_items_ = num_items;
  reading.strategy_ = &strategy;
  if (!packed.is_cuda()) {
    reading.values_ = packed.to(at::kCPU, at::kDouble);
    return reading;
  }
  reading.values_ = at::empty(packed.sizes(), at::TensorOptions(at::kDouble).pinned_memory(true));
  reading.values_.copy_(packed.to(at::kDouble), /*non_blocking=*/true);
  const auto device = packed.device();
  reading.arrived_.emplace(device.type());
  reading.arrived_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return reading;
}

StepResult StepReading::wait() {
  if (arrived_) arrived_->synchronize();
  const double* values = values_.const_data_ptr<double>();
  const double* counts = summed_here_ ? values + 2 + names_.size() : counts_.data();
  double norm = values[0];
  SumsByName totals{{kLoss, {values[1], 0}}, {kStops, {counts[0], 0}}};
  for (size_t i = 0; i < names_.size(); ++i) totals[names_[i]] = {values[2 + i], counts[1 + i]};
  if (!summed_here_) all_reduce_metrics(totals, *strategy_);
  StepResult result{.loss = totals[kLoss].sum / num_items_, .grad_norm = norm, .stop_requested = totals[kStops].sum > 0};
  totals.erase(kLoss);
  totals.erase(kStops);
  for (const auto& [name, total] : totals) result.metrics[name] = {total.sum, total.count};
  result.finite = std::isfinite(result.loss) && std::isfinite(result.grad_norm);
  return result;
}

void LogAccumulator::add(const StepResult& reading) {
  ++steps_;
  loss_ += reading.loss;
  grad_norm_ = reading.grad_norm;
  learning_rate_ = reading.learning_rate;
  for (const auto& [name, total] : reading.metrics) {
    metrics_[name].first += total.first;
    metrics_[name].second += total.second;
  }
}

Json LogAccumulator::take() {
  Json values{{"loss", loss_ / static_cast<double>(std::max<int64_t>(steps_, 1))},
              {"grad_norm", grad_norm_},
              {"learning_rate", learning_rate_}};
  for (const auto& [name, total] : metrics_)
    if (total.second > 0) values[name] = total.first / total.second;
  *this = {};
  return values;
}

Json LogAccumulator::state() const {
  Json metrics = Json::object();
  for (const auto& [name, total] : metrics_) metrics[name] = {total.first, total.second};
  return {{"steps", steps_}, {"loss", loss_}, {"grad_norm", grad_norm_}, {"learning_rate", learning_rate_}, {"metrics", metrics}};
}

void LogAccumulator::restore(const Json& state) {
  steps_ = state.at("steps").get<int64_t>();
  loss_ = state.at("loss").get<double>();
  grad_norm_ = state.at("grad_norm").get<double>();
  learning_rate_ = state.at("learning_rate").get<double>();
  metrics_.clear();
  for (const auto& [name, total] : state.at("metrics").items()) metrics_[name] = {total[0].get<double>(), total[1].get<double>()};
}

}  // namespace hone::train
