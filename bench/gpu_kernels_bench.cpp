// Kernels on an NVIDIA GPU relative to its limits: the bytes that a kernel of generation must read, over its time, and the
// products of experts relative to a plain one.
#include <chrono>
#include <cstdio>

#include "hone/base/rng.h"
#include "hone/device/device.h"
#include "hone/ops/attention/fused_qkv_attention.h"
#include "hone/ops/attention/paged_attention.h"
#include "hone/ops/cuda/grouped_gemm.h"
#include "hone/ops/cuda/thin_linear.h"
#include "hone/ops/linear/matmul.h"
#include "hone/ops/newer_torch.h"
#include "hone/ops/sample_tokens.h"

namespace hone::ops {
namespace {

at::TensorOptions bfloat16() { return at::TensorOptions(at::kBFloat16).device(at::kCUDA); }

// Launches are queued, so that the GPU does not wait for the host.
template <class Body>
double seconds_of(int times, Body body) {
  for (int i = 0; i < 3; ++i) body();
  device::synchronize(at::Device(at::kCUDA, 0));
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) body();
  device::synchronize(at::Device(at::kCUDA, 0));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / times;
}
template <class Body>
void report(const char* name, double bytes, int times, Body body) {
  const double seconds = seconds_of(times, body);
  std::printf("%-44s %9.1f us %7.2f TB/s\n", name, seconds * 1e6, bytes / seconds * 1e-12);
}

void copies() {
  auto from = at::randn({1 << 30}, bfloat16()), to = at::empty_like(from);
  report("copy of 2 GiB, read and written", 2.0 * static_cast<double>(from.nbytes()), 10, [&] { to.copy_(from); });
}

// One sequence after another through layers of 7B, every weight another: none is in the cache.
void thin_layers(int64_t rows) {
  constexpr int kLayers = 12;
  constexpr int64_t kHidden = 3584, kInner = 18944, kQkv = 4608;
  auto weights = [&](int64_t out, int64_t in) {
    TensorList list;
    for (int i = 0; i < kLayers; ++i) list.push_back(at::randn({out, in}, bfloat16()));
    return list;
  };
  auto qkv = weights(kQkv, kHidden), o = weights(kHidden, kHidden), gate_up = weights(2 * kInner, kHidden),
       down = weights(kHidden, kInner);
  auto norm = at::randn({kHidden}, bfloat16()), x = at::randn({rows, kHidden}, bfloat16()),
       wide = at::randn({rows, kInner}, bfloat16());
  auto each = [&](const char* name, const TensorList& list, const Tensor& input, const cuda::ThinFusion& with) {
    char label[64];
    std::snprintf(label, sizeof label, "%s, rows %d", name, static_cast<int>(rows));
    report(label, static_cast<double>(list[0].nbytes()) * kLayers, 20, [&] {
      for (const auto& weight : list) cuda::thin_linear(input, weight, {}, with);
    });
  };
  each("qkv x 12, plain", qkv, x, {});
  each("qkv x 12, normed", qkv, x, {.norm = norm, .eps = 1e-6});
  each("o x 12, added", o, x, {.added = x});
  each("gate-up x 12, plain", gate_up, x, {});
  each("gate-up x 12, normed and gated", gate_up, x, {.norm = norm, .eps = 1e-6, .gated = true});
  each("down x 12, added", down, wide, {.added = x});
  double all = static_cast<double>(qkv[0].nbytes() + o[0].nbytes() + gate_up[0].nbytes() + down[0].nbytes()) * kLayers;
  report("all four x 12", all, 20, [&] {
    for (size_t i = 0; i < kLayers; ++i) {
      cuda::thin_linear(x, qkv[i], {}, {.norm = norm, .eps = 1e-6});
      auto sum = cuda::thin_linear(x, o[i], {}, {.added = x});
      auto inner = cuda::thin_linear(sum, gate_up[i], {}, {.norm = norm, .eps = 1e-6, .gated = true});
      cuda::thin_linear(inner, down[i], {}, {.added = sum});
    }
  });
  for (int64_t count : {4, 8, 64}) {
    auto some = at::randn({count, kHidden}, bfloat16());
    char label[64];
    std::snprintf(label, sizeof label, "gate-up x 12 by cuBLAS, rows %d", static_cast<int>(count));
    report(label, static_cast<double>(gate_up[0].nbytes()) * kLayers, 10, [&] {
      for (const auto& weight : gate_up) matmul_nt(some, weight, {});
    });
  }
}

// Decoding: every sequence's newest token, with and without the list that shares the work out.
void decode(const char* name, const AttentionShape& shape, int64_t count, int64_t least, int64_t most) {
  constexpr int64_t kBlock = 16;
  Rng rng(1);
  std::vector<int64_t> lengths;
  int64_t blocks = 0, positions = 0;
  for (int64_t i = 0; i < count; ++i) {
    lengths.push_back(least + static_cast<int64_t>(rng.below(static_cast<uint64_t>(most - least + 1))));
    blocks += (lengths.back() + kBlock - 1) / kBlock, positions += lengths.back();
  }
  auto order = at::randperm(blocks, at::TensorOptions(at::kInt)).contiguous();
  std::vector<PagedSequence> batch;
  const auto* next = order.const_data_ptr<int32_t>();
  for (auto length : lengths) {
    const auto held = static_cast<size_t>((length + kBlock - 1) / kBlock);
    batch.push_back({length - 1, 1, {next, held}});
    next += held;
  }
  // Several layers' caches: none stays in the GPU's own.
  std::vector<KvCacheLayer> layers;
  for (int i = 0; i < 4; ++i)
    layers.push_back({at::randn({blocks, shape.kv_heads, kBlock, shape.head_dim}, bfloat16()),
                      at::randn({blocks, shape.kv_heads, kBlock, shape.head_dim}, bfloat16())});
  auto q = at::randn({count, shape.heads * shape.head_dim}, bfloat16()),
       k = at::randn({count, shape.kv_heads * shape.head_dim}, bfloat16());
  const double bytes =
      4.0 * static_cast<double>(positions * shape.kv_heads * shape.head_dim) * static_cast<double>(layers.size());
  auto metadata = paged_attention_metadata(batch, kBlock, at::kCUDA), before = metadata;
  before.decode_chunks.reset();
  char label[80];
  for (const auto& [kind, used] : {std::pair("chunks", &metadata), std::pair("sequences", &before)}) {
    std::snprintf(label, sizeof label, "%s x 4, by %s", name, kind);
    report(label, bytes, 20, [&] {
      for (auto& layer : layers) paged_attention(q, k, k, layer, *used, shape);
    });
  }
}

void sampling(int64_t rows) {
  auto logits = at::randn({rows, 151936}, bfloat16());
  for (float temperature : {0.0F, 1.0F}) {
    SamplingTensors draws;
    for (int64_t i = 0; i < rows; ++i)
      draws.temperatures.push_back(temperature), draws.top_k.push_back(0), draws.top_p.push_back(1), draws.keys.push_back(i);
    char label[80];
    std::snprintf(label, sizeof label, "sampling of %d rows, temperature %.0f", static_cast<int>(rows),
                  static_cast<double>(temperature));
    report(label, static_cast<double>(logits.nbytes()), 20, [&] { sample_tokens(logits, draws); });
  }
}

// The experts of a layer of Qwen3-30B-A3B: each product by libtorch's kernel and by ours. Tokens choose at random, or evenly.
void experts(int64_t tokens, bool even) {
  constexpr int64_t kExperts = 128, kChoices = 8, kHidden = 2048, kInner = 768;
  auto chosen = std::get<1>(at::rand({tokens, kExperts}, at::kCUDA).topk(kChoices, 1)).reshape({-1});
  if (even) chosen = at::arange(tokens * kChoices, chosen.options()).remainder(kExperts);
  const auto counts = at::bincount(chosen, {}, kExperts), ends = counts.cumsum(0).to(at::kInt);
  const int64_t rows = tokens * kChoices;
  auto gate_up = at::randn({kExperts, 2 * kInner, kHidden}, bfloat16()),
       down = at::randn({kExperts, kHidden, kInner}, bfloat16());
  auto each = [&](const char* name, const Tensor& matrices) {
    const auto x = at::randn({rows, matrices.size(1)}, bfloat16());
    const double flops = 2.0 * static_cast<double>(rows * matrices.size(1) * matrices.size(2));
    const double theirs = seconds_of(20, [&] { grouped_mm(x, matrices, ends); });
    const double ours = seconds_of(20, [&] { cuda::grouped_gemm(x, matrices, counts); });
    std::printf("%6d tokens, %-6s %-24s libtorch %8.1f us %6.0f TFLOP/s, ours %8.1f us %6.0f TFLOP/s\n", static_cast<int>(tokens),
                even ? "even" : "random", name, theirs * 1e6, flops / theirs * 1e-12, ours * 1e6, flops / ours * 1e-12);
  };
  each("gate and up", gate_up.transpose(1, 2));
  each("down", down.transpose(1, 2));
  each("gradient of down's rows", down);
  each("gradient of gate's, up's", gate_up);
}

void plain_product() {
  constexpr int64_t kSize = 8192;
  const auto x = at::randn({kSize, kSize}, bfloat16());
  const double seconds = seconds_of(20, [&] { at::mm(x, x); });
  std::printf("product of %d: %.0f TFLOP/s\n", static_cast<int>(kSize), 2.0 * kSize * kSize * kSize / seconds * 1e-12);
}

}  // namespace
}  // namespace hone::ops

int main() {
  if (!at::hasCUDA()) return std::printf("no GPU\n"), 0;
  at::NoGradGuard no_grad;
  using namespace hone::ops;
  plain_product();
  for (int64_t tokens : {1, 64, 1024, 8192}) experts(tokens, false);
  experts(8192, true);
  copies();
  decode("256 of 100 to 2,000, Qwen3-0.6B", {16, 8, 128, 0.09}, 256, 100, 2000);
  decode("64 of 100 to 2,000, Qwen3-0.6B", {16, 8, 128, 0.09}, 64, 100, 2000);
  decode("64 of 160 to 256, 7B", {28, 4, 128, 0.09}, 64, 160, 256);
  decode("64 of 4,000, 7B", {28, 4, 128, 0.09}, 64, 4000, 4000);
  decode("1 of 300, 7B", {28, 4, 128, 0.09}, 1, 300, 300);
  decode("1 of 32,000, 7B", {28, 4, 128, 0.09}, 1, 32000, 32000);
  decode("512 of 512, Qwen2.5-0.5B", {14, 2, 64, 0.125}, 512, 300, 600);
  thin_layers(1);
  thin_layers(2);
  sampling(1);
  sampling(256);
}
