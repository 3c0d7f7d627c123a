#include "hone/optim/optimizers/optimizer_in_backward.h"

#include <fmt/ranges.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "hone/base/error.h"
#include "hone/optim/optimizers/projection.h"

namespace hone::optim {
namespace {

// GaLore and APOLLO select parameters to project among all of them, while each optimizer here has only one.
void require_projected(const OptimizerConfig& config, const std::vector<ParameterGroup>& groups) {
  if (!config.name.starts_with("galore") && !config.name.starts_with("apollo")) return;
  for (const auto& group : groups)
    for (size_t i = 0; i < group.parameters.size(); ++i)
      if (is_projected(config.target_modules, group.names[i], group.parameters[i])) return;
  throw UserError(ExitCode::usage,
                  fmt::format("{}: no trained matrix matches {}", config.name, fmt::join(config.target_modules, ", ")),
                  "it projects full weights; use it with full or freeze tuning, not with LoRA");
}

}  // namespace

class OptimizerInBackward::Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(OptimizerInBackward& owner, size_t index) : owner_(owner), index_(index) {}
  void operator()(const Tensor&) override { owner_.update(index_); }

 private:
  OptimizerInBackward& owner_;
  size_t index_;
};

OptimizerInBackward::OptimizerInBackward(const OptimizerConfig& config, std::vector<ParameterGroup> groups)
    : Optimizer(std::move(groups)) {
  require_projected(config, groups_);
  auto own = config;
  own.per_parameter = false;
  for (const auto& group : groups_)
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      const auto& parameter = group.parameters[i];
      own.parameter_index = static_cast<int64_t>(parameters_.size());
      ParameterGroup alone{{group.names[i]}, {parameter}, group.lr_scale, group.weight_decay};
      each_.push_back(make_optimizer(own, {alone}));
      names_.push_back(group.names[i]);
      parameters_.push_back(parameter);
      if (parameter.requires_grad())
        torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<Hook>(*this, parameters_.size() - 1));
    }
}

OptimizerInBackward::~OptimizerInBackward() {
  for (const auto& parameter : parameters_)
    if (parameter.requires_grad()) torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
}

void OptimizerInBackward::before_last_backward(double learning_rate) { rate_ = learning_rate; }

void OptimizerInBackward::update(size_t index) {
  if (!rate_ || !at::isfinite(parameters_[index].grad()).all().item<bool>()) return;
  each_[index]->step(*rate_);
  parameters_[index].mutable_grad().reset();
}

void OptimizerInBackward::step(double learning_rate) {
  rate_.reset();
  for (size_t i = 0; i < each_.size(); ++i)
    if (parameters_[i].grad().defined()) each_[i]->step(learning_rate);
}

void OptimizerInBackward::visit_state(const StateVisitor& visit) {
  for (size_t i = 0; i < each_.size(); ++i)
    each_[i]->visit_state(
        [&](const std::string& name, Tensor& tensor) { visit(name == "step" ? "step/" + names_[i] : name, tensor); });
}

}  // namespace hone::optim
