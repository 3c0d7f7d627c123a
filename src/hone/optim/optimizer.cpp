#include "hone/optim/optimizer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>

#include "hone/base/error.h"
#include "hone/ops/cuda/gradient_norm.h"

namespace hone::optim {
namespace {

// A model may span several devices; computations over a list of tensors need one.
std::vector<TensorList> by_device(const TensorList& tensors) {
  std::vector<TensorList> lists;
  for (const auto& tensor : tensors) {
    auto found = std::ranges::find_if(lists, [&](const TensorList& list) { return list.front().device() == tensor.device(); });
    (found == lists.end() ? lists.emplace_back() : *found).push_back(tensor);
  }
  return lists;
}

Tensor norm_of_all(const TensorList& gradients) {
  TensorList norms;
  for (const auto& here : by_device(gradients)) {
    const Tensor norm = ops::cuda::supports_norm_of_all(here)
                            ? ops::cuda::norm_of_all(here)
                            : at::linalg_vector_norm(at::stack(at::_foreach_norm(here, 2, at::kFloat)), 2);
    norms.push_back(norm.to(gradients.front().device()));
  }
  return norms.size() == 1 ? norms.front() : at::linalg_vector_norm(at::stack(norms), 2);
}

}  // namespace

NamedTensors Optimizer::state() {
  NamedTensors tensors;
  visit_state([&](const std::string& name, Tensor& tensor) { tensors.emplace_back(name, tensor); });
  return tensors;
}

void Optimizer::load_state(const NamedTensors& state) {
  at::NoGradGuard no_grad;
  std::unordered_map<std::string, Tensor> saved(state.begin(), state.end());
  visit_state([&](const std::string& name, Tensor& tensor) {
    auto found = saved.find(name);
    if (found == saved.end())
      throw UserError(ExitCode::bad_checkpoint, fmt::format("the optimizer state has no \"{}\"", name),
                      "it was written with another `optim` or for other parameters; resume with the options of that run, or use "
                      "`resume_only_model` true");
    if (found->second.sizes() != tensor.sizes())
      throw UserError(ExitCode::bad_checkpoint,
                      fmt::format("optimizer state \"{}\" has shape {}, expected {}", name, fmt::join(found->second.sizes(), "x"),
                                  fmt::join(tensor.sizes(), "x")));
    tensor.copy_(found->second);
  });
}

void Optimizer::zero_grad() {
  for (auto& group : groups_)
    for (auto& parameter : group.parameters) parameter.mutable_grad().reset();
}

Tensor Optimizer::clip_grad_norm(double max_norm, const AllReduceNorm& across) {
  at::NoGradGuard no_grad;
  TensorList gradients;
  clipping_.reset();
  for (const auto& group : groups_)
    for (const auto& parameter : group.parameters)
      if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  Tensor norm = gradients.empty() ? at::zeros({}, at::kFloat) : norm_of_all(gradients);
  if (across) {
    Tensor squared = norm.square();
    across(squared);
    norm = squared.sqrt();
  }
  if (gradients.empty()) return norm;
  if (max_norm <= 0) return norm;
  Tensor coefficient = at::clamp_max(max_norm / (norm + 1e-6), 1.0);
  // On the host the value is available: multiplying by one would only cost a pass over memory.
  if (norm.is_cpu() && coefficient.item<float>() == 1.0F) return norm;
  if (scales_gradients()) {
    clipping_ = coefficient;
    return norm;
  }
  for (auto& here : by_device(gradients)) at::_foreach_mul_(here, coefficient.to(here.front().device()));
  return norm;
}

ActiveParameters active_parameters(const ParameterGroup& group) {
  ActiveParameters active;
  for (size_t i = 0; i < group.parameters.size(); ++i) {
    const Tensor& gradient = group.parameters[i].grad();
    if (!gradient.defined()) continue;
    active.positions.push_back(i);
    active.parameters.push_back(group.parameters[i]);
    active.gradients.push_back(gradient);
  }
  return active;
}

TensorList zeros_like_group(const ParameterGroup& group) {
  TensorList zeros;
  for (const auto& parameter : group.parameters) zeros.push_back(at::zeros_like(parameter.detach()));
  return zeros;
}

TensorList pick(const TensorList& tensors, const std::vector<size_t>& positions) {
  TensorList picked;
  for (size_t position : positions) picked.push_back(tensors[position]);
  return picked;
}

void visit_slot(const Optimizer::StateVisitor& visit, const std::string& slot, const ParameterGroup& group, TensorList& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].defined()) visit(slot + "/" + group.names[i], tensors[i]);
}

}  // namespace hone::optim
