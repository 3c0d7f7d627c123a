// Gated delta nets on an NVIDIA GPU beside their definitions computed in float32. Skipped where there is no GPU or nothing was
// built for one.
#include "hone/ops/cuda/delta_net.h"
#include "hone/ops/linear_attention/causal_conv1d.h"
#include "hone/ops/linear_attention/delta_net_mix.h"
#include "hone/ops/linear_attention/gated_rms_norm.h"
#include "hone/ops/rms_norm.h"
#include "ops/gpu_testing.h"

namespace hone::ops {
namespace {

constexpr int64_t kHead = 128, kTaps = 4;

CuSeqlens packed_on_gpu(std::initializer_list<int64_t> lengths) {
  CuSeqlens segments;
  for (auto length : lengths) segments.append(length);
  return segments;
}

// q, k and v as columns of one tensor, log_decay and beta.
TensorList delta_rows(int64_t rows, int64_t key_heads, int64_t value_heads, double strength) {
  return {on_gpu({rows, (2 * key_heads + value_heads) * kHead}),
          -strength * (0.5 + on_gpu({rows, value_heads}, at::kFloat).sigmoid()), on_gpu({rows, value_heads}).sigmoid()};
}
DeltaRuleInput delta_input(const TensorList& in, int64_t key_heads) {
  const int64_t keys = key_heads * kHead;
  auto heads = [&](int64_t begin, int64_t width) { return in[0].narrow(1, begin, width).view({in[0].size(0), -1, kHead}); };
  return {heads(0, keys), heads(keys, keys), heads(2 * keys, in[0].size(1) - 2 * keys), in[1], in[2]};
}

TEST_F(GpuTraining, DeltaRuleMatchesItsDefinition) {
  for (double strength : {0.001, 1.0})
    for (auto [key_heads, value_heads] : {std::pair<int64_t, int64_t>(2, 4)})
      for (const auto& segments : {packed_on_gpu({130}), packed_on_gpu({64}), packed_on_gpu({3, 0, 64, 65, 1, 100})}) {
        SCOPED_TRACE(testing::Message() << segments.count() << " sequences, decay " << strength << ", heads " << value_heads);
        const auto metadata = linear_attention_metadata(segments, at::Device(at::kCUDA, 0));
        const auto inputs = delta_rows(segments.total(), key_heads, value_heads, strength);
        const auto first = delta_input(inputs, key_heads);
        ASSERT_TRUE(cuda::supports_delta_rule({first.q_thk, first.k_thk, first.v_thv, first.log_decay_th, first.beta_th}));
        expect_near_on_gpu([&](auto& in) { return TensorList{gated_delta_rule(delta_input(in, key_heads), metadata)}; },
                           [&](auto& in) { return TensorList{gated_delta_rule_plain(delta_input(in, key_heads), segments)}; },
                           inputs);
      }
}

TEST_F(GpuTraining, ConvolutionWithSiluMatchesItsDefinition) {
  for (auto type : {at::kBFloat16, at::kFloat})
    for (const auto& segments : {packed_on_gpu({70}), packed_on_gpu({1, 2, 0, 3, 40, 33})}) {
      const auto metadata = linear_attention_metadata(segments, at::Device(at::kCUDA, 0));
      const TensorList inputs{on_gpu({segments.total(), 264}, type), on_gpu({264, 1, kTaps}, type)};
      ASSERT_TRUE(cuda::supports_conv_silu(inputs[0], inputs[1]));
      expect_near_on_gpu([&](auto& in) { return TensorList{causal_conv1d_silu(in[0], in[1], metadata)}; },
                         [&](auto& in) { return TensorList{at::silu(causal_conv1d_plain(in[0], in[1], segments))}; }, inputs,
                         type == at::kFloat ? 1e-4 : 1e-2);
    }
}

TEST_F(GpuTraining, GatedNormMatchesItsDefinition) {
  for (auto type : {at::kBFloat16, at::kFloat}) {
    const TensorList inputs{on_gpu({77, 3, kHead}, type), on_gpu({77, 4 * kHead}, type), on_gpu({kHead}, type)};
    auto gates = [](const Tensor& wide) { return wide.narrow(1, kHead, 3 * kHead).view({77, 3, kHead}); };
    ASSERT_TRUE(cuda::supports_gated_norm(inputs[0], gates(inputs[1]), inputs[2]));
    expect_near_on_gpu([&](auto& in) { return TensorList{gated_rms_norm(in[0], gates(in[1]), in[2], 1e-6)}; },
                       [&](auto& in) { return TensorList{gated_rms_norm_plain(in[0], gates(in[1]), in[2], 1e-6)}; }, inputs,
                       type == at::kFloat ? 1e-4 : 1e-2);
  }
}

TEST_F(GpuTraining, ZeroCenteredNormMatchesItsDefinition) {
  const TensorList inputs{on_gpu({100, 1024}), on_gpu({1024}, at::kBFloat16, 0.2), on_gpu({100, 1024})};
  auto plain = [](const Tensor& x, const Tensor& weight) { return rms_norm_plain(x, weight + 1, 1e-6); };
  expect_near_on_gpu([](auto& in) { return TensorList{zero_centered_rms_norm(in[0], in[1], 1e-6) + in[2]}; },
                     [&](auto& in) { return TensorList{plain(in[0], in[1]) + in[2]}; }, inputs);
  expect_near_on_gpu(
      [](auto& in) {
        const auto found = add_zero_centered_rms_norm(in[0], in[2], in[1], 1e-6);
        return TensorList{found.sum, found.normed};
      },
      [&](auto& in) {
        const auto sum = in[0] + in[2];
        return TensorList{sum, plain(sum, in[1])};
      },
      inputs);
}

RecurrentState states_on_gpu(int64_t slots, int64_t channels, int64_t heads, at::ScalarType type) {
  return {on_gpu({slots, kTaps - 1, channels}, type).transpose(1, 2), on_gpu({slots, heads, kHead, kHead}, at::kFloat, 0.1)};
}
RecurrentState copied(const RecurrentState& state) {
  return {state.conv_sck.transpose(1, 2).clone().transpose(1, 2), state.recurrent_shkv.clone()};
}

// Prompts of any length continue their slots by chunks, as position after position.
TEST_F(GpuTraining, PromptsContinueTheirStates) {
  at::NoGradGuard no_grad;
  const auto segments = packed_on_gpu({1, 130, 2, 64});
  const auto metadata = linear_attention_metadata(segments, at::Device(at::kCUDA, 0), /*is_inference=*/true);
  const auto input = delta_input(delta_rows(segments.total(), 2, 4, 0.05), 2);
  const auto state = states_on_gpu(6, 8, 4, at::kBFloat16), other = copied(state);
  const std::vector<int64_t> host{4, 0, 5, 2};
  const auto slots = at::tensor(host, at::kLong).to(at::kCUDA);
  const StateSlots here{&state, slots, host};
  const auto found = gated_delta_rule(input, metadata, &here);
  for (int64_t i = 0; i < segments.count(); ++i) {
    auto own = other.recurrent_shkv.narrow(0, host[static_cast<size_t>(i)], 1).clone();
    TensorList rows;
    for (int64_t row = 0; row < segments.length(i); ++row)
      rows.push_back(gated_delta_position(input.rows(segments.offsets[static_cast<size_t>(i)] + row, 1), own));
    EXPECT_LT(gpu_distance(found.narrow(0, segments.offsets[static_cast<size_t>(i)], segments.length(i)), at::cat(rows)), 1e-2)
        << i;
    EXPECT_LT(gpu_distance(state.recurrent_shkv.narrow(0, host[static_cast<size_t>(i)], 1), own), 1e-2) << i;
  }
  for (int64_t slot : {1, 3}) EXPECT_TRUE(at::equal(state.recurrent_shkv[slot], other.recurrent_shkv[slot]));
}

// A row that pads the batch gives zeros; the slots that no row names stay.
TEST_F(GpuTraining, DeltaStepMatchesItsDefinition) {
  at::NoGradGuard no_grad;
  for (auto type : {at::kBFloat16, at::kHalf, at::kFloat})
    for (auto [key_heads, value_heads] : {std::pair<int64_t, int64_t>(1, 1), {2, 4}, {2, 16}}) {
      SCOPED_TRACE(testing::Message() << type << ", heads " << value_heads);
      const int64_t channels = (2 * key_heads + value_heads) * kHead, rows = 3;
      const DeltaNetRows input{on_gpu({rows, channels}, type), on_gpu({rows, value_heads, kHead}, type),
                               on_gpu({rows, value_heads}, type), on_gpu({rows, value_heads}, type)};
      const DeltaNetWeights weights{.conv = on_gpu({channels, 1, kTaps}, type),
                                    .dt_bias = on_gpu({value_heads}, type),
                                    .a_log = on_gpu({value_heads}, at::kFloat),
                                    .norm = on_gpu({kHead}, type),
                                    .eps = 1e-6,
                                    .key_heads = key_heads,
                                    .key_dim = kHead};
      const auto state = states_on_gpu(5, channels, value_heads, type), other = copied(state);
      const std::vector<int64_t> host{3, 1};
      const auto metadata = linear_attention_metadata(packed_on_gpu({1, 1, 1}), at::Device(at::kCUDA, 0), /*is_inference=*/true),
                 metadata_of_two =
                     linear_attention_metadata(packed_on_gpu({1, 1}), at::Device(at::kCUDA, 0), /*is_inference=*/true);
      const StateSlots padded{&state, at::tensor({3, 1, -1}, at::kLong).to(at::kCUDA), {}},
          two{&other, at::tensor(host, at::kLong).to(at::kCUDA), host};
      const auto found = delta_net_mix(input, weights, metadata, &padded);
      auto part = [](const Tensor& x) { return x.narrow(0, 0, 2); };
      const auto expected = delta_net_mix_plain({part(input.qkv_tc), part(input.z_thv), part(input.b_th), part(input.a_th)},
                                                weights, metadata_of_two, &two);
      EXPECT_LT(gpu_distance(found.narrow(0, 0, 2), expected), type == at::kFloat ? 1e-4 : 1e-2);
      EXPECT_EQ(found[2].abs().max().item<double>(), 0);
      EXPECT_TRUE(at::equal(state.conv_sck, other.conv_sck));
      EXPECT_LT(gpu_distance(state.recurrent_shkv, other.recurrent_shkv), type == at::kFloat ? 1e-5 : 1e-2);
      for (int64_t slot : {0, 2, 4}) EXPECT_TRUE(at::equal(state.recurrent_shkv[slot], other.recurrent_shkv[slot]));
    }
}

}  // namespace
}  // namespace hone::ops
