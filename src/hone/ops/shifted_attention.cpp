#include "hone/ops/shifted_attention.h"

#include "hone/base/error.h"

namespace hone::ops {
namespace {

constexpr int64_t kGroups = 4;

// As for a sequence padded to a multiple of eight, without its padding: the size is even, and only the last group may be short.
int64_t group_size(int64_t length) { return (length + 2 * kGroups - 1) / (2 * kGroups) * 2; }

}  // namespace

ShiftedPlan shifted_plan(const Segments& segments, at::Device device) {
  Segments straight, shifted;
  std::vector<int64_t> order;
  for (int64_t i = 0; i < segments.count(); ++i) {
    const int64_t begin = segments.offsets[static_cast<size_t>(i)], length = segments.length(i), size = group_size(length);
    for (int64_t from = 0; from < length; from += size) straight.append(std::min(size, length - from));
    // What lies before the first half group comes behind the last one, as in a ring.
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
  return {attention_plan(straight, device), attention_plan(shifted, device), places.to(device), places.argsort().to(device)};
}

Tensor shifted_attention(const Tensor& q, const Tensor& k, const Tensor& v, const ShiftedPlan& plan, const AttentionShape& shape) {
  HONE_CHECK(shape.heads % 2 == 0, "{} heads have no half", shape.heads);
  auto half = shape;
  half.heads /= 2;
  const bool shared = shape.kv_heads % 2 != 0;  // a key that both halves read is repeated first
  half.kv_heads = shared ? half.heads : shape.kv_heads / 2;
  const auto own = [&](const Tensor& x) {
    if (!shared) return x;
    return x.view({x.size(0), shape.kv_heads, -1}).repeat_interleave(shape.heads / shape.kv_heads, 1).view({x.size(0), -1});
  };
  auto queries = q.chunk(2, 1), keys = own(k).chunk(2, 1), values = own(v).chunk(2, 1);
  const auto moved = [&](const Tensor& x) { return x.index_select(0, plan.order); };
  auto straight = attention(queries[0].contiguous(), keys[0].contiguous(), values[0].contiguous(), plan.straight, half);
  auto shifted = attention(moved(queries[1]), moved(keys[1]), moved(values[1]), plan.shifted, half);
  return at::cat({straight, shifted.index_select(0, plan.back)}, 1);
}

}  // namespace hone::ops
