#include "hone/optim/rank_allocator.h"

#include <cmath>
#include <map>

#include "hone/base/error.h"

namespace hone::optim {

int64_t RankSchedule::budget(int64_t step, int64_t first, int64_t last) const {
  if (step <= tinit) return first;
  if (step > steps - tfinal) return last;
  const double left = 1 - static_cast<double>(step - tinit) / static_cast<double>(steps - tfinal - tinit);
  return static_cast<int64_t>(static_cast<double>(first - last) * std::pow(left, 3) + static_cast<double>(last));
}

bool RankSchedule::changes_at(int64_t step) const {
  if (step == steps - tfinal) return true;
  return step > tinit && step < steps - tfinal && step % interval == 0;
}

void RankAllocator::Importance::observe(const RankSchedule& schedule) {
  if (!parameter.grad().defined()) return;
  auto change = (parameter * parameter.grad()).abs();
  sensitivity.mul_(schedule.sensitivity_decay).add_(change, 1 - schedule.sensitivity_decay);
  uncertainty.mul_(schedule.uncertainty_decay).add_((change - sensitivity).abs(), 1 - schedule.uncertainty_decay);
}

Tensor RankAllocator::Layer::scores() const { return e.score().view(-1) + a.score().mean(1) + b.score().mean(0); }

RankAllocator::RankAllocator(std::unique_ptr<Optimizer> inner, const RankSchedule& schedule, Gather gather)
    : Optimizer(inner->groups()), inner_(std::move(inner)), schedule_(schedule), gather_(std::move(gather)) {
  std::map<std::string, Layer> layers;  // ordered by name
  for (const auto& group : groups_)
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      const std::string& name = group.names[i];
      const size_t dot = name.rfind(".lora_");
      if (dot == std::string::npos) continue;
      auto& layer = layers[name.substr(0, dot)];
      const Tensor& parameter = group.parameters[i];
      auto& slot = name.ends_with("_A") ? layer.a : name.ends_with("_B") ? layer.b : layer.e;
      slot = {name, parameter, at::zeros_like(parameter.detach()), at::zeros_like(parameter.detach())};
    }
  for (auto& [path, layer] : layers) {
    HONE_CHECK(layer.a.parameter.defined() && layer.b.parameter.defined() && layer.e.parameter.defined(),
               "an AdaLoRA layer has A, B and E");
    layer.kept = at::ones_like(layer.e.parameter.detach());
    first_ranks_ += layer.e.parameter.size(0);
    layers_.push_back(std::move(layer));
  }
  all_layers_ = static_cast<int64_t>(layers_.size());
  if (!gather_) return;
  const auto sums = gather_(at::tensor({all_layers_, first_ranks_}, at::kLong)).view({-1, 2}).sum(0).cpu();
  all_layers_ = sums[0].item<int64_t>();
  first_ranks_ = sums[1].item<int64_t>();
}

// d/dP |P P^T - I| = 2 M P / |M| with M = P P^T - I; for B, whose vectors are columns, the same with its transpose.
void RankAllocator::add_penalty_gradients() {
  if (schedule_.orthogonality == 0 || layers_.empty()) return;
  at::NoGradGuard no_grad;
  const double weight = schedule_.orthogonality / static_cast<double>(2 * all_layers_);
  for (auto& layer : layers_)
    for (auto* matrix : {&layer.a, &layer.b}) {
      auto& gradient = matrix->parameter.mutable_grad();
      if (!gradient.defined()) continue;
      const bool columns = matrix == &layer.b;
      auto vectors = columns ? matrix->parameter.detach().t() : matrix->parameter.detach();
      auto excess = vectors.mm(vectors.t()) - at::eye(vectors.size(0), vectors.options());
      auto slope = excess.mm(vectors) * (2 * weight / at::linalg_vector_norm(excess));
      gradient.add_(columns ? slope.t() : slope);
    }
}

void RankAllocator::step(double learning_rate) {
  inner_->step(learning_rate);
  at::NoGradGuard no_grad;
  step_ += 1;
  const int64_t step = step_.item<int64_t>(), last_change = schedule_.steps - schedule_.tfinal;
  if (step < last_change)
    for (auto& layer : layers_)
      for (auto* importance : {&layer.a, &layer.b, &layer.e}) importance->observe(schedule_);
  if (schedule_.changes_at(step)) allocate(schedule_.budget(step, first_ranks_, schedule_.target_rank * all_layers_));
  if (step > last_change)
    for (auto& layer : layers_) layer.e.parameter.mul_(layer.kept);
}

void RankAllocator::allocate(int64_t budget) {
  const int64_t dropped = first_ranks_ - budget;
  if (dropped <= 0) return;
  TensorList own;
  for (const auto& layer : layers_) own.push_back(layer.scores().to(at::kFloat));
  auto all = own.empty() ? at::empty({0}, at::kFloat) : at::cat(own);
  if (gather_) all = gather_(all);
  const auto threshold = std::get<0>(at::kthvalue(all, dropped));
  for (size_t i = 0; i < layers_.size(); ++i) {
    auto& layer = layers_[i];
    layer.kept = (own[i] > threshold).view({-1, 1}).to(layer.e.parameter.scalar_type());
    layer.e.parameter.mul_(layer.kept);
  }
}

void RankAllocator::visit_state(const StateVisitor& visit) {
  inner_->visit_state(visit);
  visit("adalora/step", step_);
  for (auto& layer : layers_) {
    for (auto* importance : {&layer.a, &layer.b, &layer.e}) {
      visit("adalora/sensitivity/" + importance->name, importance->sensitivity);
      visit("adalora/uncertainty/" + importance->name, importance->uncertainty);
    }
    visit("adalora/kept/" + layer.e.name, layer.kept);
  }
}

}  // namespace hone::optim
