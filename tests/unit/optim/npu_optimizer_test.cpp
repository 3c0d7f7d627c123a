// Every optimizer on an NPU beside itself on the CPU, over the same gradients. Runs under `hone emulate-npu` (tests/npu) or on a
// card.
#include <gtest/gtest.h>

#include "hone/device/device.h"
#include "hone/device/npu.h"
#include "hone/optim/factory.h"
#include "hone/optim/param_groups.h"

namespace hone::optim {
namespace {

constexpr int kSteps = 5;

const std::vector<std::pair<std::string, std::vector<int64_t>>>& shapes() {
  static const std::vector<std::pair<std::string, std::vector<int64_t>>> kShapes{
      {"model.layers.0.mlp.up_proj.weight", {48, 32}},
      {"model.layers.0.self_attn.k_proj.weight", {16, 32}},
      {"model.layers.0.self_attn.q_proj.bias", {16}},
      {"model.norm.weight", {32}},
  };
  return kShapes;
}

// Projections that are drawn at random cannot agree between devices: those of APOLLO are computed instead.
Json arguments_of(const std::string& optimizer) {
  if (optimizer.starts_with("galore")) return {{"rank", 4}, {"update_proj_gap", 2}};
  if (optimizer.starts_with("apollo")) return {{"rank", 4}, {"update_proj_gap", 2}, {"proj", "svd"}};
  return Json::object();
}

// Muon multiplies its matrices in bfloat16.
double tolerance_of(const std::string& optimizer) { return optimizer == "muon" ? 1e-3 : 1e-5; }

TensorList trained(const std::string& name, at::Device device, const AdamConfig& adam = {}) {
  at::manual_seed(5);
  NamedTensors parameters;
  for (const auto& [parameter, shape] : shapes())
    parameters.emplace_back(parameter, at::randn(shape).to(device).requires_grad_(true));
  auto optimizer = make_optimizer({.name = name, .adam = adam, .arguments = arguments_of(name)},
                                  make_param_groups(parameters, {.weight_decay = 0.1}));
  for (int step = 0; step < kSteps; ++step) {
    for (auto& [parameter, tensor] : parameters) tensor.mutable_grad() = (at::randn(tensor.sizes()) * 0.1).to(device);
    optimizer->clip_grad_norm(1.0);
    optimizer->step(1e-2);
    optimizer->zero_grad();
  }
  TensorList out;
  for (const auto& [parameter, tensor] : parameters) out.push_back(tensor.detach().to(at::kCPU));
  return out;
}

TEST(NpuOptimizers, StepAsOnTheCpu) {
  if (!device::npu::present()) GTEST_SKIP() << "no NPU, real or emulated";
  auto npu = device::select_device("npu:0");
  for (const auto& name : optimizer_names()) {
    auto here = trained(name, at::kCPU), there = trained(name, npu);
    for (size_t i = 0; i < here.size(); ++i)
      EXPECT_TRUE(at::allclose(there[i], here[i], 1e-4, tolerance_of(name)))
          << name << ", " << shapes()[i].first << ": differs by " << (there[i] - here[i]).abs().max().item<float>();
  }
}

TEST(NpuOptimizers, RoundMomentsAsOnTheCpu) {
  if (!device::npu::present()) GTEST_SKIP() << "no NPU, real or emulated";
  const AdamConfig rounded{.exp_avg_dtype = at::kBFloat16, .exp_avg_sq_dtype = at::kBFloat16};
  auto here = trained("adamw_torch", at::kCPU, rounded), there = trained("adamw_torch", device::select_device("npu:0"), rounded);
  for (size_t i = 0; i < here.size(); ++i) EXPECT_TRUE(at::allclose(there[i], here[i], 1e-4, 1e-3)) << shapes()[i].first;
}

}  // namespace
}  // namespace hone::optim
