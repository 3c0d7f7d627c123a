#include "hone/train/loop/precision.h"

#include <algorithm>

namespace hone::train {
namespace {

constexpr int64_t kGrowthInterval = 2000;
constexpr double kSmallestScale = 1.0;

bool is_half(const Tensor& tensor) { return tensor.scalar_type() == at::kBFloat16 || tensor.scalar_type() == at::kHalf; }

}  // namespace

MasterWeights::MasterWeights(std::vector<optim::ParameterGroup>& groups) {
  for (auto& group : groups)
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      Tensor working = group.parameters[i];
      if (!is_half(working)) continue;
      Tensor master = working.detach().to(at::kFloat).requires_grad_(true);
      pairs_.push_back({group.names[i], working, master});
      group.parameters[i] = master;
    }
}

void MasterWeights::accumulate_master_grads(bool keep_short) {
  at::NoGradGuard no_grad;
  for (auto& [name, working, master] : pairs_) {
    Tensor& fresh = working.mutable_grad();
    if (!fresh.defined()) continue;
    Tensor& total = master.mutable_grad();
    if (total.defined()) {
      if (is_half(total)) total = total.to(at::kFloat);
      total.add_(fresh);
    } else {
      total = keep_short && fresh.scalar_type() == at::kBFloat16 ? fresh : fresh.to(at::kFloat);
    }
    fresh.reset();
  }
}

void MasterWeights::copy_to_model() {
  at::NoGradGuard no_grad;
  if (pairs_.empty()) return;
  TensorList working, masters;
  for (auto& pair : pairs_) working.push_back(pair.working), masters.push_back(pair.master);
  at::_foreach_copy_(working, masters);
}

void MasterWeights::after_update() {
  if (!written_by_optimizer_) copy_to_model();
}

void MasterWeights::let_write(optim::Optimizer& optimizer) {
  std::vector<std::pair<Tensor, Tensor>> copies;
  for (const auto& pair : pairs_) copies.emplace_back(pair.master, pair.working);
  written_by_optimizer_ = !copies.empty() && optimizer.write_along(copies);
}

void MasterWeights::reload_from_model() {
  at::NoGradGuard no_grad;
  for (auto& pair : pairs_) pair.master.copy_(pair.working);
}

optim::NamedTensors MasterWeights::state() const {
  optim::NamedTensors tensors;
  for (const auto& pair : pairs_) tensors.emplace_back(pair.name, pair.master.detach());
  return tensors;
}

void MasterWeights::load_state(const optim::NamedTensors& state) {
  at::NoGradGuard no_grad;
  for (auto& pair : pairs_) {
    auto found = std::find_if(state.begin(), state.end(), [&](const auto& entry) { return entry.first == pair.name; });
    if (found == state.end())
      throw UserError(ExitCode::bad_checkpoint, "the checkpoint holds no float32 master of " + pair.name,
                      "resume with the precision it was trained with, or with `resume_only_model` true");
    pair.master.copy_(found->second);
  }
}

void GradScaler::unscale(optim::Optimizer& optimizer) const {
  if (!enabled_) return;
  at::NoGradGuard no_grad;
  for (const auto& group : optimizer.groups())
    for (const auto& parameter : group.parameters)
      if (parameter.grad().defined()) parameter.grad().mul_(1.0 / scale_);
}

bool GradScaler::back_off() {
  good_steps_ = 0;
  if (!enabled_ || scale_ <= kSmallestScale) return false;
  scale_ /= 2;
  return true;
}

void GradScaler::count_good_step() {
  if (!enabled_ || ++good_steps_ < kGrowthInterval) return;
  scale_ *= 2;
  good_steps_ = 0;
}

void GradScaler::restore(const Json& state) {
  if (!enabled_) return;
  scale_ = state.value("scale", scale_);
  good_steps_ = state.value("good_steps", int64_t{0});
}

}  // namespace hone::train
