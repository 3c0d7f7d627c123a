// Linear layers of a 0.5B model without gradients, hone's product and libtorch's, for one to 512 rows: all products of 24
// layers one after the other, so that weights come from memory. GB/s counts the weights, once a pass; those of 8 and 4 bits
// without their scales.
#include <benchmark/benchmark.h>

#include <array>
#include <map>

#include "hone/device/memory.h"
#include "hone/ops/linear/matmul.h"
#include "hone/ops/quantization/quantized_linear.h"

namespace hone::ops {
namespace {

struct Layers {
  static constexpr std::array<std::pair<int64_t, int64_t>, 4> kShapes{
      {{1152, 896}, {896, 896}, {9728, 896}, {896, 4864}}};  // outputs, inputs
  static constexpr int64_t kLayers = 24;

  std::vector<Tensor> weights;

  explicit Layers(at::ScalarType type) {
    device::enable_cpu_caching_allocator();
    for (int64_t layer = 0; layer < kLayers; ++layer)
      for (auto [outputs, inputs] : kShapes) weights.push_back(at::randn({outputs, inputs}).to(type));
  }
  int64_t numbers() const {
    int64_t sum = 0;
    for (const auto& weight : weights) sum += weight.numel();
    return sum;
  }
};

const Layers& layers_of(at::ScalarType type) {
  static const Layers floats(at::kFloat), halves(at::kBFloat16);
  return type == at::kFloat ? floats : halves;
}

using QuantizedLayers = std::vector<std::shared_ptr<const PackedWeight>>;
const QuantizedLayers& quantized_layers(int bits) {
  static std::map<int, QuantizedLayers> made;
  auto& all = made[bits];
  if (all.empty())
    for (const auto& weight : layers_of(at::kFloat).weights) all.push_back(quantize_weight(weight, bits));
  return all;
}

// product(x, index of a weight) for all weights.
template <class Product>
void multiply_all(benchmark::State& state, at::ScalarType type, double bytes, Product product) {
  at::NoGradGuard no_grad;
  const auto& layers = layers_of(type);
  const int64_t rows = state.range(0);
  auto narrow = at::randn({rows, 896}).to(type), wide = at::randn({rows, 4864}).to(type);
  for (auto _ : state)
    for (size_t i = 0; i < layers.weights.size(); ++i)
      benchmark::DoNotOptimize(product(layers.weights[i].size(1) == 896 ? narrow : wide, i));
  const auto passes = static_cast<double>(state.iterations()), numbers = static_cast<double>(layers.numbers());
  state.counters["GB/s"] = benchmark::Counter(passes * numbers * bytes / 1e9, benchmark::Counter::kIsRate);
  state.counters["GFLOP/s"] =
      benchmark::Counter(passes * numbers * 2 * static_cast<double>(rows) / 1e9, benchmark::Counter::kIsRate);
}

void product(benchmark::State& state, at::ScalarType type, bool ours) {
  const auto& weights = layers_of(type).weights;
  multiply_all(state, type, static_cast<double>(at::elementSize(type)),
               [&](const Tensor& x, size_t i) { return ours ? matmul_nt(x, weights[i]) : at::mm(x, weights[i].t()); });
}

void quantized_product(benchmark::State& state, int bits) {
  const auto& weights = quantized_layers(bits);
  multiply_all(state, at::kBFloat16, bits / 8.0, [&](const Tensor& x, size_t i) { return quantized_linear(x, *weights[i], {}); });
}

void rows(benchmark::internal::Benchmark* bench) {
  for (int64_t count : {1, 2, 4, 8, 16, 32, 64, 128, 512}) bench->Arg(count);
  bench->Unit(benchmark::kMillisecond)->UseRealTime();
}

BENCHMARK_CAPTURE(product, float32_hone, at::kFloat, true)->Apply(rows);
BENCHMARK_CAPTURE(product, float32_libtorch, at::kFloat, false)->Apply(rows);
BENCHMARK_CAPTURE(product, bfloat16_hone, at::kBFloat16, true)->Apply(rows);
BENCHMARK_CAPTURE(product, bfloat16_libtorch, at::kBFloat16, false)->Apply(rows);
BENCHMARK_CAPTURE(quantized_product, int8_hone, 8)->Apply(rows);
BENCHMARK_CAPTURE(quantized_product, int4_hone, 4)->Apply(rows);

}  // namespace
}  // namespace hone::ops

BENCHMARK_MAIN();
