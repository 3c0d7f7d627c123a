// Teachers of a policy and an expert's rows: advantages of tokens, and schedules, by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "hone/train/rl/policy_teacher.h"
#include "hone/train/rl/rollout.h"

namespace hone::train::rl {
namespace {

TEST(Guidance, TheTeachersLogRatioIsAddedToAdvantages) {
  const auto base = at::tensor({1.0f, -1.0f}), teacher = at::tensor({-0.5f, -2.0f}), old = at::tensor({-1.0f, -1.0f});
  const auto found = advantages_with_teacher({.teacher = {}, .kl_coef = 0.5}, base, teacher, old, 0);
  EXPECT_TRUE(at::allclose(found, at::tensor({1.25f, -1.5f})));
}

TEST(Guidance, WeightsFollowTheSignAndStayInTheirRange) {
  PolicyTeacherConfig config{.teacher = {}, .reweight = AdvantageReweightConfig{.lambda = 0.5, .clip_range = 0.2}};
  const auto base = at::tensor({2.0f, -2.0f, 2.0f}), old = at::tensor({-1.0f, -1.0f, -1.0f});
  const auto teacher = at::tensor({-0.9f, -0.9f, 3.0f});
  const float up = 2 * (0.5f + 0.5f * std::exp(0.1f)), down = -2 * (0.5f + 0.5f * std::exp(-0.1f));
  EXPECT_TRUE(at::allclose(advantages_with_teacher(config, base, teacher, old, 0), at::tensor({up, down, 2 * 1.1f})));
  config.reweight->negative_only = true;
  EXPECT_TRUE(at::allclose(advantages_with_teacher(config, base, teacher, old, 0), at::tensor({2.0f, down, 2.0f})));
}

TEST(Guidance, SchedulesRiseAndFall) {
  const AdvantageReweightConfig reweight{.lambda = 0.4, .warmup_steps = 4, .decay_steps = 8};
  EXPECT_DOUBLE_EQ(reweight.lambda_at(2), 0.2);
  EXPECT_DOUBLE_EQ(reweight.lambda_at(8), 0.2);
  EXPECT_DOUBLE_EQ(reweight.lambda_at(40), 0);
  const DemonstrationConfig chord{.datasets = {}, .warmup_steps = 2, .decay_steps = 4, .mu_peak = 0.9, .mu_valley = 0.1};
  EXPECT_DOUBLE_EQ(chord.mu_at(1), 0.45);
  EXPECT_DOUBLE_EQ(chord.mu_at(2), 0.9);
  EXPECT_NEAR(chord.mu_at(4), 0.5, 1e-12);
  EXPECT_DOUBLE_EQ(chord.mu_at(6), 0.1);
}

TEST(Guidance, TagsFindTheirTeacher) {
  const std::vector<TeacherServer> servers{{"http://a", {"math"}}, {"http://b", {"code", "7"}}};
  EXPECT_EQ(route_by_tag(servers, {"code", "math", "7"}), (std::vector<size_t>{1, 0, 1}));
  EXPECT_THROW(route_by_tag(servers, {"chess"}), UserError);
  data::Conversation row;
  row.origin.dataset = "rows.jsonl";
  EXPECT_EQ(teacher_tag(row, "dataset"), "rows.jsonl");
  row.extra = {{"teacher_tag", 7}};
  EXPECT_EQ(teacher_tag(row, "teacher_tag"), "7");
}

}  // namespace
}  // namespace hone::train::rl
