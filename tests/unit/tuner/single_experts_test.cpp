#include "hone/tuner/single_experts.h"

#include <gtest/gtest.h>

#include <cmath>

#include "hone/ops/moe/moe.h"
#include "hone/tuner/adapter_state_dict.h"

namespace hone::tuner {
namespace {

constexpr int64_t kExperts = 3, kRank = 2, kHidden = 6, kInner = 4;
constexpr const char* kBlock = "model.layers.0.mlp";

std::string half_name(int64_t expert, const std::string& kind, const char* half) {
  return fmt::format("{}.experts.{}.{}.{}", kBlock, expert, kind, half);
}

// A pair for every layer of every expert.
io::Adapter adapter_of_singles() {
  at::manual_seed(3);
  io::Adapter adapter;
  adapter.config.peft_type = "LORA";
  adapter.config.rank = kRank;
  adapter.config.alpha = 8;
  adapter.config.targets.names = {"gate_proj", "up_proj", "down_proj"};
  for (int64_t expert = 0; expert < kExperts; ++expert)
    for (const auto& [kind, in, out] :
         {std::tuple("gate_proj", kHidden, kInner), {"up_proj", kHidden, kInner}, {"down_proj", kInner, kHidden}}) {
      adapter.tensors.emplace_back(half_name(expert, kind, "lora_A.weight"), at::randn({kRank, in}));
      adapter.tensors.emplace_back(half_name(expert, kind, "lora_B.weight"), at::randn({out, kRank}));
    }
  return adapter;
}

Tensor tensor_named(const io::Adapter& adapter, const std::string& name) {
  for (const auto& [own, tensor] : adapter.tensors)
    if (own == name) return tensor;
  return {};
}

std::string refusal_of(io::Adapter adapter) {
  try {
    stack_single_experts(adapter, "folder");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(SingleExperts, ChangeTheWeightsAsEachPairDoes) {
  for (bool rslora : {false, true}) {
    auto singles = adapter_of_singles();
    singles.config.rslora = rslora;
    auto stacked = singles;
    stack_single_experts(stacked, "folder");
    const auto parts = parse_adapter_state_dict(stacked, "folder");
    const double scale = singles.config.scale(kRank, singles.config.alpha);
    auto change = [&](int64_t expert, const std::string& kind) {
      return tensor_named(singles, half_name(expert, kind, "lora_B.weight"))
                 .mm(tensor_named(singles, half_name(expert, kind, "lora_A.weight"))) *
             scale;
    };
    const auto gate_up =
        ops::expert_lora_delta(parts.layers.at(fmt::format("{}.experts.gate_up_proj", kBlock)).weights, kExperts);
    const auto down = ops::expert_lora_delta(parts.layers.at(fmt::format("{}.experts.down_proj", kBlock)).weights, kExperts);
    for (int64_t expert = 0; expert < kExperts; ++expert) {
      EXPECT_TRUE(at::allclose(gate_up[expert], at::cat({change(expert, "gate_proj"), change(expert, "up_proj")}), 1e-4, 1e-5))
          << "rslora " << rslora;
      EXPECT_TRUE(at::allclose(down[expert], change(expert, "down_proj"), 1e-4, 1e-5)) << "rslora " << rslora;
    }
  }
}

TEST(SingleExperts, APairThatOneExpertLacksIsNamedWhicheverItIs) {
  for (int64_t lacking : {int64_t{0}, kExperts - 1}) {
    auto adapter = adapter_of_singles();
    std::erase_if(adapter.tensors,
                  [&](const auto& named) { return named.first.starts_with(half_name(lacking, "down_proj", "")); });
    EXPECT_NE(refusal_of(adapter).find(fmt::format("experts.{}.down_proj has no complete pair", lacking)), std::string::npos)
        << refusal_of(adapter);
  }
}

TEST(SingleExperts, WhatIsNoPairOfAnExpertIsRefused) {
  auto dora = adapter_of_singles();
  dora.tensors.emplace_back(half_name(1, "up_proj", "lora_magnitude_vector"), at::ones({kInner}));
  EXPECT_NE(refusal_of(dora).find("experts.1.up_proj.lora_magnitude_vector"), std::string::npos) << refusal_of(dora);
  auto strange = adapter_of_singles();
  strange.tensors.emplace_back(half_name(2, "side_proj", "lora_A.weight"), at::ones({kRank, kHidden}));
  EXPECT_NE(refusal_of(strange).find("\"side_proj\""), std::string::npos) << refusal_of(strange);
}

}  // namespace
}  // namespace hone::tuner
