#include "hone/optim/cpu_adam.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "hone/ops/cpu/parallel.h"
#include "hone/ops/cpu/vector/adam.h"

namespace hone::optim {
namespace {

using ops::cpu::AdamRounding, ops::cpu::AdamStep;

// libtorch rounds the elements after the last full vector differently, and its vectors hold 4, 8 or 16 floats: it processes that
// rest itself.
constexpr int64_t kWhole = 16;
constexpr int64_t kBlock = 1 << 15;

AdamStep step_of(const AdamUpdate& u, const AdamConfig& config, AdamRounding rounding) {
  const auto steps = static_cast<double>(u.step);
  const double correction1 = 1 - std::pow(config.beta1, steps), correction2 = 1 - std::pow(config.beta2, steps);
  return {.keep = static_cast<float>(1 - u.rate * u.weight_decay),
          .rate = static_cast<float>(u.rate / correction1),
          .weight1 = static_cast<float>(1 - config.beta1),
          .beta2 = static_cast<float>(config.beta2),
          .weight2 = static_cast<float>(1 - config.beta2),
          .correction2 = static_cast<float>(std::sqrt(correction2)),
          .epsilon = static_cast<float>(config.epsilon),
          .rounding = rounding};
}

// Work of one thread at a time. Tensors are split by size alone, all of a group before any is updated: few barriers, whatever the
// tensors' sizes.
struct Block {
  size_t tensor;
  int64_t begin, end;
};

std::vector<Block> blocks_of(const TensorList& tensors) {
  std::vector<Block> blocks;
  for (size_t i = 0; i < tensors.size(); ++i)
    for (int64_t begin = 0, whole = tensors[i].numel() / kWhole * kWhole; begin < whole; begin += kBlock)
      blocks.push_back({i, begin, std::min(begin + kBlock, whole)});
  return blocks;
}

// The elements after the last full vector of each tensor.
AdamUpdate rest_of(const AdamUpdate& u) {
  AdamUpdate rest{.rate = u.rate, .weight_decay = u.weight_decay, .step = u.step};
  for (size_t i = 0; i < u.parameters.size(); ++i) {
    const int64_t total = u.parameters[i].numel(), whole = total / kWhole * kWhole;
    if (whole == total) continue;
    auto tail = [&](const Tensor& tensor) { return tensor.detach().view({-1}).narrow(0, whole, total - whole); };
    rest.parameters.push_back(tail(u.parameters[i])), rest.gradients.push_back(tail(u.gradients[i]));
    rest.first.push_back(tail(u.first[i])), rest.second.push_back(tail(u.second[i]));
  }
  return rest;
}

void update_all(const AdamUpdate& u, const AdamConfig& config, AdamRounding rounding) {
  const auto step = step_of(u, config, rounding);
  struct Pointers {
    float* parameter;
    const float* gradient;
    float *first, *second;
  };
  std::vector<Pointers> pointers;
  for (size_t i = 0; i < u.parameters.size(); ++i) {
    pointers.push_back({u.parameters[i].mutable_data_ptr<float>(), u.gradients[i].const_data_ptr<float>(),
                        u.first[i].mutable_data_ptr<float>(), u.second[i].mutable_data_ptr<float>()});
    for (const auto* changed : {&u.parameters[i], &u.first[i], &u.second[i]}) changed->unsafeGetTensorImpl()->bump_version();
  }
  const auto blocks = blocks_of(u.parameters);
  ops::cpu::parallel_pieces(static_cast<int64_t>(blocks.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const auto& [tensor, begin, end] = blocks[static_cast<size_t>(block)];
      const auto& p = pointers[tensor];
      ops::cpu::adam_span(p.parameter + begin, p.gradient + begin, p.first + begin, p.second + begin, end - begin, step);
    }
  });
  if (auto rest = rest_of(u); !rest.parameters.empty()) libtorch_adam(rest, config);
}

AdamUpdate probe() {
  auto values = [](double scale, double shift) {
    return (at::arange(4096, at::kDouble) * 0.7548776662466927).frac().mul(scale).add(shift).to(at::kFloat);
  };
  AdamUpdate u{.rate = 1e-3, .weight_decay = 0.1, .step = 3};
  u.parameters = {values(2, -1)}, u.gradients = {values(0.3, -0.17)}, u.first = {values(0.2, -0.1)},
  u.second = {values(1e-3, 1e-6)};
  return u;
}

// The rounding mode that reproduces libtorch's bits, found by trying each on the same numbers.
std::optional<AdamRounding> rounding_of_libtorch() {
  static const auto found = []() -> std::optional<AdamRounding> {
    const AdamConfig config;
    auto theirs = probe();
    libtorch_adam(theirs, config);
    for (auto rounding : {AdamRounding::separate, AdamRounding::fused_square, AdamRounding::fused_decay}) {
      auto ours = probe();
      update_all(ours, config, rounding);
      if (ours.parameters[0].equal(theirs.parameters[0]) && ours.first[0].equal(theirs.first[0]) &&
          ours.second[0].equal(theirs.second[0]))
        return rounding;
    }
    return {};
  }();
  return found;
}

bool is_plain(const Tensor& tensor) { return tensor.is_cpu() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous(); }

}  // namespace

void libtorch_adam(const AdamUpdate& u, const AdamConfig& config) {
  Tensor step = at::full({}, static_cast<double>(u.step), u.parameters.front().options().dtype(at::kFloat).requires_grad(false));
  TensorList steps(u.parameters.size(), step);
  auto fused = config.decoupled_decay ? static_cast<decltype(&at::_ops::_fused_adam_::call)>(&at::_ops::_fused_adamw_::call)
                                      : &at::_ops::_fused_adam_::call;
  fused(u.parameters, u.gradients, u.first, u.second, {}, steps, u.rate, config.beta1, config.beta2, u.weight_decay,
        config.epsilon, /*amsgrad=*/false,
        /*maximize=*/false, {}, {});
}

bool supports_cpu_adam(const AdamUpdate& u, const AdamConfig& config) {
  if (!config.decoupled_decay) return false;
  for (const auto* tensors : {&u.parameters, &u.gradients, &u.first, &u.second})
    if (!std::ranges::all_of(*tensors, is_plain)) return false;
  return rounding_of_libtorch().has_value();
}

void cpu_adam(const AdamUpdate& update, const AdamConfig& config) { update_all(update, config, *rounding_of_libtorch()); }

}  // namespace hone::optim
