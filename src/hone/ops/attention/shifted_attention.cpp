#include "hone/ops/attention/shifted_attention.h"

namespace hone::ops {
namespace {

constexpr int64_t kGroups = 4;

// As for a sequence padded to a multiple of eight, without the padding: the size is even, and only the last group may be short.
int64_t group_size(int64_t length) { return (length + 2 * kGroups - 1) / (2 * kGroups) * 2; }

}  // namespace

ShiftedAttentionMetadata shifted_attention_metadata(const CuSeqlens& segments, at::Device device) {
  CuSeqlens straight, shifted;
  std::vector<int64_t> order;
  for (int64_t i = 0; i < segments.count(); ++i) {
    const int64_t begin = segments.offsets[static_cast<size_t>(i)], length = segments.length(i), size = group_size(length);
    for (int64_t from = 0; from < length; from += size) straight.append(std::min(size, length - from));
    // The first half group wraps around to follow the last one.
    const int64_t half = std::min(size / 2, length), padded = size * kGroups;
    for (int64_t t = half; t < length; ++t) order.push_back(begin + t);
    for (int64_t t = 0; t < half; ++t) order.push_back(begin + t);
    for (int64_t from = size / 2; from < padded; from += size) {
      int64_t real = std::max<int64_t>(0, std::min(from + size, length) - from);
      if (from + size > padded) real += half;
      if (real > 0) shifted.append(real);
    }
  }
  auto places = at::tensor(order, at::kLong);
  return {attention_metadata(straight, device), attention_metadata(shifted, device), places.to(device),
          places.argsort().to(device)};
}

Tensor shifted_attention(const Tensor& q, const Tensor& k, const Tensor& v, const ShiftedAttentionMetadata& metadata,
                         const AttentionShape& shape) {
  const int64_t first = shape.heads / 2, rest = shape.heads - first;    // odd heads are shifted
  const bool shared = shape.heads % 2 != 0 || shape.kv_heads % 2 != 0;  // a key head read by both halves is repeated first
  const auto part = [&](const Tensor& x, int64_t heads, bool shifted) {
    auto own = x.view({x.size(0), heads, -1});
    if (heads != shape.heads && shared) own = own.repeat_interleave(shape.heads / heads, 1);
    const int64_t cut = own.size(1) == shape.heads ? first : own.size(1) / 2;
    auto half = shifted ? own.slice(1, cut).index_select(0, metadata.order) : own.slice(1, 0, cut);
    return half.reshape({x.size(0), -1});
  };
  const auto attend = [&](bool shifted) {
    auto half = shape;
    half.heads = shifted ? rest : first;
    half.kv_heads = shared ? half.heads : shape.kv_heads / 2;
    return attention(part(q, shape.heads, shifted), part(k, shape.kv_heads, shifted), part(v, shape.kv_heads, shifted),
                     shifted ? metadata.shifted : metadata.straight, half);
  };
  if (first == 0) return attend(true).index_select(0, metadata.back);
  return at::cat({attend(false), attend(true).index_select(0, metadata.back)}, 1);
}

}  // namespace hone::ops
