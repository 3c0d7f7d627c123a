#include "hone/tuner/loftq.h"

#include <array>
#include <cmath>

namespace hone::tuner {
namespace {

constexpr int64_t kBlock = 64;

// The code of QLoRA: quantiles of a normal distribution with an exact zero, scaled to [-1, 1].
constexpr std::array<float, 16> kNf4 = {-1.0F,
                                        -0.6961928009986877F,
                                        -0.5250730514526367F,
                                        -0.39491748809814453F,
                                        -0.28444138169288635F,
                                        -0.18477343022823334F,
                                        -0.09105003625154495F,
                                        0.0F,
                                        0.07958029955625534F,
                                        0.16093020141124725F,
                                        0.24611230194568634F,
                                        0.33791524171829224F,
                                        0.44070982933044434F,
                                        0.5626170039176941F,
                                        0.7229568362236023F,
                                        1.0F};

Tensor nf4_table() { return at::tensor(at::ArrayRef<float>(kNf4.data(), kNf4.size()), at::kFloat); }

}  // namespace

Tensor rounded_to_nf4(const Tensor& weight) {
  const Tensor table = nf4_table().to(weight.device());
  const Tensor borders = (table.slice(0, 1) + table.slice(0, 0, -1)) * 0.5;
  const int64_t count = weight.numel(), padding = (kBlock - count % kBlock) % kBlock;
  const Tensor blocks = at::constant_pad_nd(weight.to(at::kFloat).reshape({-1}), {0, padding}).view({-1, kBlock});
  const Tensor largest = std::get<0>(blocks.abs().max(1, /*keepdim=*/true));
  // A block of zeros has no scale: any divisor leaves it zero.
  const Tensor codes = at::bucketize(blocks / at::where(largest > 0, largest, at::ones_like(largest)), borders);
  return (table.index_select(0, codes.view({-1})).view_as(blocks) * largest).view({-1}).slice(0, 0, count).view(weight.sizes());
}

Tensor rounded_to_int8(const Tensor& weight) {
  // By way of float16 and a reciprocal, as bitsandbytes does: PEFT must find the same base again, to the last rounding.
  const Tensor full = weight.to(at::kHalf).to(at::kFloat);
  const Tensor largest = std::get<0>(full.abs().max(1, /*keepdim=*/true));
  const Tensor per_step = at::where(largest > 0, largest, at::ones_like(largest)).reciprocal() * 127.0;
  const Tensor codes = (full * per_step).round_();
  return codes * largest * (1.0 / 127);
}

LoraPair loftq(const Tensor& weight, int64_t rank, double scale, int64_t bits, int64_t rounds) {
  const Tensor full = weight.to(at::kFloat);
  LoraPair pair;
  for (int64_t round = 0; round < rounds; ++round) {
    const Tensor target = round == 0 ? full : full - scale * pair.b.mm(pair.a);
    pair.residual = bits == 4 ? rounded_to_nf4(target) : rounded_to_int8(target);
    auto [u, s, vh] = at::linalg_svd(full - pair.residual, /*full_matrices=*/false);
    const Tensor root = (s.slice(0, 0, rank) / scale).sqrt();
    pair.a = (root.unsqueeze(1) * vh.slice(0, 0, rank)).contiguous();
    pair.b = (u.slice(1, 0, rank) * root).contiguous();
  }
  pair.residual = pair.residual.to(weight.scalar_type());
  return pair;
}

}  // namespace hone::tuner
