#include "hone/train/loop/step_metrics.h"

#include <cmath>

#include "hone/train/distributed/metric_reduction.h"

namespace hone::train {
namespace {

// Beside the metrics, whose names are words.
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

StepResult StepMetrics::read(const Tensor& grad_norm, double count, bool stop_requested, ParallelStrategy& group) const {
  TensorList sums{loss_.reshape({})};
  for (const auto& [name, metric] : metrics_) sums.push_back(metric.sum.reshape({}));
  Tensor packed = at::stack(sums);
  std::vector<double> host{stop_requested ? 1.0 : 0.0};
  for (const auto& [name, metric] : metrics_) host.push_back(metric.num_items);
  bool summed_here = group.size() > 1 && !names_vary_;
  if (summed_here) {
    packed = at::cat({packed, at::tensor(host).to(packed.options())});
    group.all_reduce(packed);
  }
  packed = at::cat({grad_norm.reshape({1}).to(packed.device(), at::kFloat), packed})
               .to(at::kCPU, at::kDouble);  // an offloaded norm is on the host
  const double* values = packed.const_data_ptr<double>();
  const double* counts = summed_here ? values + 2 + metrics_.size() : host.data();
  double norm = values[0];
  SumsByName totals{{kLoss, {values[1], 0}}, {kStops, {counts[0], 0}}};
  for (size_t i = 0; const auto& [name, metric] : metrics_) totals[name] = {values[2 + i], counts[1 + i]}, ++i;
  if (!summed_here) all_reduce_metrics(totals, group);
  StepResult reading{.loss = totals[kLoss].sum / count, .grad_norm = norm, .stop_requested = totals[kStops].sum > 0};
  totals.erase(kLoss);
  totals.erase(kStops);
  for (const auto& [name, total] : totals) reading.metrics[name] = {total.sum, total.count};
  reading.finite = std::isfinite(reading.loss) && std::isfinite(reading.grad_norm);
  return reading;
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
