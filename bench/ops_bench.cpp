// Each fused operator and its plain composition, forward and backward, in the shapes of a 0.5B model at 2,048 tokens.
#include <benchmark/benchmark.h>

#include "hone/device/memory.h"
#include "hone/ops/attention/attention.h"
#include "hone/ops/attention/rope.h"
#include "hone/ops/linear/swiglu_linear.h"
#include "hone/ops/loss/linear_cross_entropy.h"
#include "hone/ops/moe/moe.h"
#include "hone/ops/rms_norm.h"

namespace hone::ops {
namespace {

constexpr int64_t kTokens = 2048, kHidden = 896, kInner = 4864, kHeads = 14, kKvHeads = 2, kHeadDim = 64;

Tensor leaf(std::initializer_list<int64_t> shape) { return at::randn(shape).requires_grad_(); }

template <class Operator>
void forward_and_backward(benchmark::State& state, Operator op) {
  device::enable_cpu_caching_allocator();
  for (auto _ : state) op().sum().backward();
  state.SetItemsProcessed(state.iterations() * kTokens);
}

void norm(benchmark::State& state, bool fused) {
  auto x = leaf({kTokens, kHidden}), w = at::randn({kHidden});
  forward_and_backward(state, [&] { return fused ? rms_norm(x, w, 1e-6) : rms_norm_plain(x, w, 1e-6); });
}

void rotary(benchmark::State& state, bool fused) {
  auto x = leaf({kTokens, kHidden});
  auto table = rope_table(at::arange(kTokens), at::rand({kHeadDim / 2}));
  forward_and_backward(state, [&] { return fused ? rope(x, table) : rope_plain(x, table); });
}

void mlp(benchmark::State& state, bool fused) {
  auto gate = leaf({kTokens, kInner}), up = leaf({kTokens, kInner}), weight = at::randn({kHidden, kInner});
  std::vector<LoraWeights> adapters{{.a = leaf({8, kInner}), .b = leaf({kHidden, 8})}};
  forward_and_backward(state, [&] {
    return fused ? swiglu_linear(gate, up, weight, {}, adapters, true)
                 : swiglu_linear_plain(gate, up, weight, {}, adapters, true);
  });
}

void attend(benchmark::State& state, bool fused) {
  auto q = leaf({kTokens, kHeads * kHeadDim}), k = leaf({kTokens, kKvHeads * kHeadDim}), v = leaf({kTokens, kKvHeads * kHeadDim});
  AttentionMetadata metadata;
  for (int i = 0; i < 4; ++i) metadata.segments.append(kTokens / 4);
  AttentionShape shape{kHeads, kKvHeads, kHeadDim, 0.125};
  forward_and_backward(state, [&] { return (fused ? attention : attention_plain)(q, k, v, metadata, shape); });
}

// The shape of a Qwen3-30B-A3B block's experts, of which each token goes to 8; weights stand still, as under LoRA on attention,
// or train.
void experts(benchmark::State& state, bool grouped, bool trained, int64_t tokens) {
  constexpr int64_t kExperts = 128, kWidth = 768, kInput = 2048, kChosen = 8;
  auto x = leaf({tokens, kInput});
  auto gate_up = at::randn({kExperts, 2 * kWidth, kInput}).requires_grad_(trained),
       down = at::randn({kExperts, kInput, kWidth}).requires_grad_(trained);
  auto choice = route_top_k(at::randn({tokens, kExperts}), kChosen, true);
  forward_and_backward(state, [&] { return (grouped ? expert_mlp : expert_mlp_plain)(x, choice, {gate_up, {}}, {down, {}}); });
  state.SetItemsProcessed(state.iterations() * tokens);
}

void loss(benchmark::State& state, bool fused) {
  auto hidden = leaf({512, kHidden}), weight = at::randn({151936, kHidden}), targets = at::randint(151936, {512}, at::kLong);
  forward_and_backward(
      state, [&] { return (fused ? linear_cross_entropy : linear_cross_entropy_plain)(hidden, weight, {}, targets, {}).sum; });
}

BENCHMARK_CAPTURE(norm, fused, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(norm, plain, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(rotary, fused, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(rotary, plain, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(mlp, fused, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(mlp, plain, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(attend, fused, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(attend, plain, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(experts, grouped_512_tokens, true, false, 512)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(experts, loop_512_tokens, false, false, 512)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(experts, grouped_16_tokens, true, false, 16)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(experts, loop_16_tokens, false, false, 16)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(experts, grouped_trained_64_tokens, true, true, 64)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(experts, loop_trained_64_tokens, false, true, 64)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(loss, fused, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(loss, plain, false)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hone::ops

BENCHMARK_MAIN();
