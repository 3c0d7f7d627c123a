#include "hone/ops/cpu/rope.h"

#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/parallel.h"
#include "hone/ops/cpu/scratch.h"
#include "hone/ops/cpu/vector/kernels.h"

namespace hone::ops::cpu {

void rope(const Tensor& x, const Tensor& cos, const Tensor& sin, float direction, Tensor& y) {
  int64_t rows = x.size(0), width = x.numel() / rows, half = cos.size(1);
  with_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    auto* from = x.const_data_ptr<T>();
    auto* to = y.mutable_data_ptr<T>();
    auto *cosines = cos.const_data_ptr<float>(), *sines = sin.const_data_ptr<float>();
    parallel_pieces(rows, row_grain(width), [&](int64_t begin, int64_t end) {
      rope_rows(from + begin * width, cosines + begin * half, sines + begin * half, direction, to + begin * width, end - begin,
                width / (2 * half), half);
    });
  });
}

QueriesKeysValues split_qkv(const Tensor& qkv, const QkNorm& norms, const RopeTable& table, int64_t heads, int64_t kv_heads) {
  const int64_t rows = qkv.size(0), width = qkv.size(1), head_dim = width / (heads + 2 * kv_heads), half = table.cos.size(1);
  auto part = [&](int64_t count) { return at::empty({rows, count * head_dim}, qkv.options()); };
  QueriesKeysValues parts{part(heads), part(kv_heads), part(kv_heads)};
  with_type(qkv.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const auto* all = qkv.const_data_ptr<T>();
    auto weight_of = [](const Tensor& norm) { return norm.defined() ? norm.const_data_ptr<T>() : nullptr; };
    const T *q_norm = weight_of(norms.q), *k_norm = weight_of(norms.k);
    T *q = parts.q.mutable_data_ptr<T>(), *k = parts.k.mutable_data_ptr<T>(), *v = parts.v.mutable_data_ptr<T>();
    auto *cosines = table.cos.const_data_ptr<float>(), *sines = table.sin.const_data_ptr<float>();
    parallel_pieces(rows, row_grain(width), [&](int64_t begin, int64_t end) {
      thread_local std::vector<float> unread;
      auto* rstd = grown(unread, std::max(heads, kv_heads));
      for (int64_t row = begin; row < end; ++row) {
        auto norm_and_rotate = [&](const T* from, const T* weight, T* to, int64_t count) {
          if (weight)
            rms_norm_rows<T>(from, nullptr, weight, nullptr, to, rstd, count, head_dim, static_cast<float>(norms.eps)), from = to;
          rope_rows(from, cosines + row * half, sines + row * half, +1.0f, to, 1, count, half);
        };
        const T* from = all + row * width;
        norm_and_rotate(from, q_norm, q + row * heads * head_dim, heads);
        norm_and_rotate(from + heads * head_dim, k_norm, k + row * kv_heads * head_dim, kv_heads);
        std::copy_n(from + (heads + kv_heads) * head_dim, kv_heads * head_dim, v + row * kv_heads * head_dim);
      }
    });
  });
  return parts;
}

}  // namespace hone::ops::cpu
