#include "hone/ops/attention/even_attention.h"

namespace hone::ops {
namespace {

constexpr int64_t kLengthStep = 256;

bool all_alike(const CuSeqlens& segments) {
  for (int64_t i = 1; i < segments.count(); ++i)
    if (segments.length(i) != segments.length(0)) return false;
  return segments.count() > 0;
}

}  // namespace

bool supports_even(const Tensor& q, const AttentionMetadata& metadata, const AttentionShape& shape) {
  const int64_t length = metadata.segments.longest();
  const bool windowed = shape.window > 0 && length > shape.window, exact = at::globalContext().deterministicAlgorithms();
  return supports_flash(q, shape) && shape.head_dim <= 128 && !windowed && !exact && length % kLengthStep == 0 &&
         all_alike(metadata.segments) && at::globalContext().hasCuDNN();
}

Tensor even_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMetadata& metadata,
                      const AttentionShape& shape) {
  auto by_sequence = [&](const Tensor& x) {
    return x.view({metadata.segments.count(), metadata.segments.length(0), -1, shape.head_dim}).transpose(1, 2);
  };
  auto out = at::_scaled_dot_product_cudnn_attention(by_sequence(q), by_sequence(k), by_sequence(v), std::nullopt,
                                                     /*compute_log_sumexp=*/true, 0.0, /*is_causal=*/shape.causal,
                                                     /*return_debug_mask=*/false, shape.scale);
  return std::get<0>(out).transpose(1, 2).reshape({q.size(0), -1});
}

}  // namespace hone::ops
