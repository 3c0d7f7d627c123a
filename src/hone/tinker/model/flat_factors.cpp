#include "hone/tinker/model/flat_factors.h"

#include <map>

#include "hone/base/error.h"
#include "hone/ops/linear/grouped_lora.h"

namespace hone::tinker {
namespace {

constexpr int64_t kAlignment = 16;     // floats: a cache line
constexpr const char* kName = "flat";  // of the buffer, in the optimizer's state

bool is_flat(const std::string& state) { return state.ends_with(std::string("/") + kName); }
std::string slot_of(const std::string& state) { return state.substr(0, state.rfind('/') + 1); }

}  // namespace

bool FlatFactors::supports(const Tensor& factor) { return ops::accumulates_in_place(factor); }

Tensor FlatFactors::Slice::of(const Tensor& flat) const {
  return flat.detach().narrow(0, begin, c10::multiply_integers(shape)).view(shape).detach();
}

FlatFactors::FlatFactors(const std::vector<model::NamedParameter>& factors) {
  at::NoGradGuard no_grad;
  int64_t size = 0;
  for (const auto& [name, factor] : factors) {
    slices_.push_back({name, size, factor->sizes().vec()});
    size += (factor->numel() + kAlignment - 1) / kAlignment * kAlignment;
  }
  HONE_CHECK(!factors.empty());
  values_ = at::zeros({size}, factors.front().value->options());
  const auto gradients = at::zeros_like(values_);
  values_.mutable_grad() = gradients;
  for (size_t i = 0; i < factors.size(); ++i) {
    auto factor = slices_[i].of(values_).copy_(*factors[i].value);
    factor.requires_grad_(true).mutable_grad() = slices_[i].of(gradients);
    *factors[i].value = factor;
  }
}

optim::ParameterGroup FlatFactors::group(double weight_decay) const {
  return {.names = {kName}, .parameters = {values_}, .weight_decay = weight_decay};
}

optim::NamedTensors FlatFactors::split(const optim::NamedTensors& state) const {
  optim::NamedTensors named;
  for (const auto& [name, tensor] : state) {
    if (!is_flat(name)) named.emplace_back(name, tensor);
    for (size_t i = 0; is_flat(name) && i < slices_.size(); ++i)
      named.emplace_back(slot_of(name) + slices_[i].name, slices_[i].of(tensor));
  }
  return named;
}

optim::NamedTensors FlatFactors::joined(const optim::NamedTensors& state, const optim::NamedTensors& saved) const {
  const std::map<std::string, Tensor> by_name(saved.begin(), saved.end());
  auto found = [&](const std::string& name) {
    auto tensor = by_name.find(name);
    if (tensor == by_name.end())
      throw UserError(ExitCode::bad_checkpoint, fmt::format("the optimizer state has no \"{}\"", name));
    return tensor->second;
  };
  optim::NamedTensors flat;
  for (const auto& [name, tensor] : state) {
    if (!is_flat(name)) {
      flat.emplace_back(name, found(name));
      continue;
    }
    const auto values = flat.emplace_back(name, at::zeros_like(tensor)).second;
    for (const auto& slice : slices_) {
      const auto part = found(slot_of(name) + slice.name);
      if (part.sizes() != at::IntArrayRef(slice.shape))
        throw UserError(ExitCode::bad_checkpoint, fmt::format("the optimizer state of \"{}\" has another shape", slice.name));
      slice.of(values).copy_(part);
    }
  }
  return flat;
}

}  // namespace hone::tinker
