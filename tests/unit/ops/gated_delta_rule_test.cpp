// Gated delta nets of packed sequences in chunks, against the definitions: values, gradients, and states that are continued.
#include "hone/ops/linear_attention/gated_delta_rule.h"

#include "hone/ops/linear_attention/causal_conv1d.h"
#include "ops/ops_testing.h"

namespace hone::ops {
namespace {

using Lengths = std::vector<int64_t>;
// Before, at and after the ends of chunks, alone and packed; no sequence of a row may read another one.
const std::vector<Lengths> kPackedRows = {{1}, {63}, {64}, {65}, {200}, {1, 63, 64, 65, 200}, {3, 0, 130, 5, 1, 7}, {17, 2, 30}};

CuSeqlens packed(const Lengths& lengths) {
  CuSeqlens segments;
  for (auto length : lengths) segments.append(length);
  return segments;
}

// q, k, v, log_decay and beta. A decay of one position is about exp(-strength).
TensorList random_rows(int64_t rows, double strength, at::ScalarType dtype = at::kFloat) {
  return {random({rows, 2, 8}, dtype), random({rows, 2, 8}, dtype), random({rows, 4, 12}, dtype),
          -strength * (0.5 + random({rows, 4}).sigmoid()), random({rows, 4}).sigmoid()};
}

DeltaRuleInput input_of(const TensorList& x) { return {x[0], x[1], x[2], x[3], x[4]}; }

TEST(GatedDeltaRule, ChunksComputeWhatTheDefinitionDoes) {
  at::manual_seed(1);
  for (const auto& lengths : kPackedRows)
    for (double strength : {0.02, 1.0}) {
      const auto segments = packed(lengths);
      const auto metadata = linear_attention_metadata(segments, at::kCPU);
      SCOPED_TRACE(testing::Message() << segments.count() << " sequences of " << segments.total() << ", decay " << strength);
      expect_same([&](const TensorList& x) { return gated_delta_rule(input_of(x), metadata); },
                  [&](const TensorList& x) { return gated_delta_rule_plain(input_of(x), segments); },
                  random_rows(segments.total(), strength), 1e-4);
    }
}

// A gradient that does not cross chunks would pass above where the decay is strong.
TEST(GatedDeltaRule, GradientsReachEarlierChunks) {
  at::manual_seed(2);
  auto inputs = random_rows(200, 0.001);
  for (auto& input : inputs) input.requires_grad_();
  const auto y = gated_delta_rule(input_of(inputs), linear_attention_metadata(packed({200}), at::kCPU));
  y[199].sum().backward();
  for (size_t i = 1; i < inputs.size(); ++i)
    for (int64_t row : {10, 70, 130, 195}) EXPECT_GT(inputs[i].grad()[row].abs().max().item<float>(), 0) << i << " at " << row;
}

TEST(GatedDeltaRule, HalfPrecisionIsRoundedOnce) {
  at::manual_seed(3);
  const auto segments = packed({65, 130});
  const auto inputs = random_rows(segments.total(), 0.05, at::kBFloat16);
  expect_same([&](const TensorList& x) { return gated_delta_rule(input_of(x), linear_attention_metadata(segments, at::kCPU)); },
              [&](const TensorList& x) { return gated_delta_rule_plain(input_of(x), segments); }, inputs,
              tolerance_of(at::kBFloat16));
}

// A text in two passes, cut anywhere, next to others: outputs and the states after it are those of the whole.
TEST(GatedDeltaRule, StatesContinueAtAnyPosition) {
  at::manual_seed(4);
  at::NoGradGuard no_grad;
  constexpr int64_t kText = 150, kOther = 70, kSlots = 3;
  const auto inputs = random_rows(kText + kOther, 0.05);
  const auto channels_tc = random({kText, 10}), weight = random({10, 1, 4});
  const auto first = input_of(inputs).rows(0, kText), other = input_of(inputs).rows(kText, kOther);
  const auto wanted = gated_delta_rule_plain(first, packed({kText})),
             wanted_other = gated_delta_rule_plain(other, packed({kOther}));
  const auto wanted_conv = causal_conv1d_plain(channels_tc, weight, packed({kText}));
  for (int64_t cut : {1, 63, 64, 65, 128, 149}) {
    SCOPED_TRACE(cut);
    const RecurrentState state{at::zeros({kSlots, 3, 10}).transpose(1, 2), at::zeros({kSlots, 4, 8, 12})};
    auto rule = [&](const DeltaRuleInput& rows, const Lengths& lengths, const Lengths& slots) {
      const StateSlots states{&state, at::tensor(slots, at::kLong), slots};
      return gated_delta_rule(rows, linear_attention_metadata(packed(lengths), at::kCPU, /*is_inference=*/true), &states);
    };
    auto conv = [&](int64_t begin, int64_t count) {
      const Lengths slots{1};
      const StateSlots states{&state, at::tensor(slots, at::kLong), slots};
      return causal_conv1d(channels_tc.narrow(0, begin, count), weight,
                           linear_attention_metadata(packed({count}), at::kCPU, /*is_inference=*/true), &states);
    };
    const auto before = rule(first.rows(0, cut), {cut}, {2});
    // One position advances without chunks, and such segments come first.
    const bool is_step = kText - cut == 1;
    auto both = [&](const Tensor& a, const Tensor& b) { return is_step ? at::cat({a, b}) : at::cat({b, a}); };
    const auto rest = first.rows(cut, kText - cut);
    const DeltaRuleInput together{both(rest.q_thk, other.q_thk), both(rest.k_thk, other.k_thk), both(rest.v_thv, other.v_thv),
                                  both(rest.log_decay_th, other.log_decay_th), both(rest.beta_th, other.beta_th)};
    const auto after = is_step ? rule(together, {1, kOther}, {2, 0}) : rule(together, {kOther, kText - cut}, {0, 2});
    EXPECT_LT(relative_difference(before, wanted.narrow(0, 0, cut)), 1e-4);
    EXPECT_LT(relative_difference(after, both(wanted.narrow(0, cut, kText - cut), wanted_other)), 1e-4);
    EXPECT_EQ(state.recurrent_shkv[1].abs().max().item<float>(), 0) << "a slot that no segment has";
    EXPECT_LT(relative_difference(at::cat({conv(0, cut), conv(cut, kText - cut)}), wanted_conv), 2e-5);
  }
}

TEST(CausalConv1d, ComputesWhatTheDefinitionDoes) {
  at::manual_seed(5);
  for (const auto& lengths : kPackedRows)
    for (int64_t kernel : {2, 4})
      for (auto dtype : {at::kFloat, at::kBFloat16}) {
        const auto segments = packed(lengths);
        const auto metadata = linear_attention_metadata(segments, at::kCPU);
        SCOPED_TRACE(testing::Message() << segments.count() << " sequences of " << segments.total() << ", kernel " << kernel);
        expect_same([&](const TensorList& x) { return causal_conv1d(x[0], x[1], metadata); },
                    [&](const TensorList& x) { return causal_conv1d_plain(x[0], x[1], segments); },
                    {random({segments.total(), 10}, dtype), random({10, 1, kernel}, dtype)}, tolerance_of(dtype));
      }
}

}  // namespace
}  // namespace hone::ops
