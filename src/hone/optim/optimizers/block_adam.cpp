#include "hone/optim/optimizers/block_adam.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "hone/base/error.h"
#include "hone/base/log.h"

namespace hone::optim {
namespace {

// "model.layers.3." for a parameter inside a decoder layer, else nothing.
std::string layer_prefix(const std::string& name) {
  constexpr std::string_view kLayers = "layers.";
  const size_t at = name.find(kLayers);
  if (at == std::string::npos) return {};
  const size_t end = name.find('.', at + kLayers.size());
  return end == std::string::npos ? std::string() : name.substr(0, end + 1);
}

int64_t layer_number(const std::string& prefix) {
  const size_t dot = prefix.rfind('.', prefix.size() - 2);
  return std::stoll(prefix.substr(dot + 1));
}

std::vector<std::string> layer_prefixes(const std::vector<ParameterGroup>& groups) {
  std::vector<std::string> prefixes;
  for (const auto& group : groups)
    for (const auto& name : group.names)
      if (auto prefix = layer_prefix(name); !prefix.empty() && !std::ranges::count(prefixes, prefix)) prefixes.push_back(prefix);
  std::ranges::sort(prefixes, {}, layer_number);
  return prefixes;
}

}  // namespace

BlockAdam::BlockAdam(std::vector<ParameterGroup> groups, const BlockAdamConfig& config)
    : Optimizer(std::move(groups)), config_(config), blocks_(layer_prefixes(groups_)) {
  if (blocks_.empty())
    throw UserError(ExitCode::usage, "BAdam: none of the trained parameters belongs to a layer", "use it with full tuning");
  const auto count = static_cast<int64_t>(blocks_.size());
  if (config_.start_block >= count)
    throw UserError(ExitCode::usage, fmt::format("`badam_start_block` is {}", config_.start_block),
                    fmt::format("the model has blocks 0 to {}", count - 1));
  activate(0);
}

// The first block is left one step early, as in the authors' code.
int64_t BlockAdam::switch_count() const { return config_.interval > 0 ? (step_.item<int64_t>() + 1) / config_.interval : 0; }

int64_t BlockAdam::block_at_switch(int64_t visit) const {
  const auto count = static_cast<int64_t>(blocks_.size());
  const int64_t first = config_.start_block >= 0 ? config_.start_block : config_.order == BlockOrder::descending ? count - 1 : 0;
  if (config_.order == BlockOrder::ascending) return (first + visit) % count;
  if (config_.order == BlockOrder::descending) return ((first - visit) % count + count) % count;
  if (config_.order == BlockOrder::fixed) return first;
  if (visit == 0 && config_.start_block >= 0) return first;
  // The order of each round depends only on the round: a resumed run needs only its step.
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(visit / count));
  return at::randperm(count, generator, at::kLong)[visit % count].item<int64_t>();
}

void BlockAdam::activate(int64_t visit) {
  active_visit_ = visit;
  const std::string& prefix = blocks_[static_cast<size_t>(block_at_switch(visit))];
  copies_.clear();
  std::vector<ParameterGroup> active;
  for (const auto& group : groups_) {
    ParameterGroup part{{}, {}, group.lr_scale, group.weight_decay};
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      Tensor parameter = group.parameters[i];
      const bool chosen = group.names[i].starts_with(prefix);
      parameter.requires_grad_(chosen);
      if (!chosen) continue;
      part.names.push_back(group.names[i]);
      part.parameters.push_back(parameter);
      if (parameter.scalar_type() == at::kFloat) continue;
      part.parameters.back() = parameter.detach().to(at::kFloat);
      copies_.push_back({group.names[i], parameter, part.parameters.back()});
    }
    if (!part.parameters.empty()) active.push_back(std::move(part));
  }
  adam_ = std::make_unique<Adam>(std::move(active), config_.adam);
  is_announced_ = false;
}

void BlockAdam::announce_block() {
  if (config_.verbose && !is_announced_)
    log::info("BAdam trains {}*", blocks_[static_cast<size_t>(block_at_switch(active_visit_))]);
  is_announced_ = true;
}

void BlockAdam::step(double learning_rate) {
  at::NoGradGuard no_grad;
  announce_block();
  for (auto& copy : copies_)
    if (copy.working.grad().defined()) copy.master.mutable_grad() = copy.working.grad().to(at::kFloat);
  adam_->step(learning_rate);
  for (auto& copy : copies_) {
    copy.working.copy_(copy.master);
    copy.master.mutable_grad().reset();
  }
  step_ += 1;
  if (switch_count() == active_visit_) return;
  zero_grad();
  activate(switch_count());
}

void BlockAdam::visit_state(const StateVisitor& visit) {
  visit("global_step", step_);
  // Loading has just set the step: the following state belongs to the block active at that step.
  if (switch_count() != active_visit_) activate(switch_count());
  adam_->visit_state(visit);
  for (auto& copy : copies_) visit("master/" + copy.name, copy.master);
}

}  // namespace hone::optim
