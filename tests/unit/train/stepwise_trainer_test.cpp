#include "hone/train/stepwise_trainer.h"

#include <gtest/gtest.h>

#include "model/tiny_json.h"

namespace hone::train {
namespace {

// A pass that replays experts returns those, and the router's own where it leaves the choice to it: once more, they give the
// same.
TEST(StepwiseTrainer, ReplayedExpertsAreReturned) {
  const auto config = model::tiny_json("Qwen3MoeForCausalLM", {{"head_dim", 8}, {"num_experts", 4}, {"initializer_range", 0.3}});
  StepwiseTrainer trainer(model::CausalLM::random(model::parse_config(config, "test"), 4), {});
  data::Batch batch;
  batch.tokens_t = at::arange(12);
  batch.positions_t = at::arange(12);
  batch.targets_t = at::arange(1, 13);
  batch.segments.append(12);
  batch.sample_count = 1;
  const auto [chosen_t, chosen_tlk] = trainer.routed_logps(batch, 1.0);
  const auto others_tlk = ((chosen_tlk + 1) % 4).contiguous();
  others_tlk.slice(0, 8).fill_(-1);
  batch.routed_experts_tlk = others_tlk;
  const auto [replayed_t, used_tlk] = trainer.routed_logps(batch, 1.0);
  EXPECT_FALSE(at::allclose(replayed_t, chosen_t, 1e-3, 1e-3));
  EXPECT_TRUE(at::equal(used_tlk.slice(0, 0, 8), others_tlk.slice(0, 0, 8)));
  EXPECT_GE(used_tlk.min().item<int64_t>(), 0);
  batch.routed_experts_tlk = used_tlk;
  const auto [again_t, again_tlk] = trainer.routed_logps(batch, 1.0);
  EXPECT_TRUE(at::allclose(again_t, replayed_t));
  EXPECT_TRUE(at::equal(again_tlk, used_tlk));
}

}  // namespace
}  // namespace hone::train
