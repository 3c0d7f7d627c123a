#include "hone/ops/linear_attention/linear_attention_metadata.h"

#include <bit>
#include <numeric>

#include "hone/device/autograd.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The last row, which an index may name, is zero.
Tensor with_zero_row(const Tensor& x) {
  auto sizes = x.sizes().vec();
  sizes[0] = 1;
  return at::cat({x, at::zeros(sizes, x.options())});
}

// Each row has one place, so that gradients are gathered as well, instead of added in any order.
class ToChunks : public torch::autograd::Function<ToChunks> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& rows_p, const Tensor& places_t) {
    ctx->save_for_backward({places_t});
    return with_zero_row(x).index_select(0, rows_p);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {grads[0].index_select(0, ctx->get_saved_variables()[0]), Tensor(), Tensor()};
  }
};

class FromChunks : public torch::autograd::Function<FromChunks> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& rows_p, const Tensor& places_t) {
    ctx->save_for_backward({rows_p});
    return x.index_select(0, places_t);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {with_zero_row(grads[0]).index_select(0, ctx->get_saved_variables()[0]), Tensor(), Tensor()};
  }
};

Tensor positions_of(const CuSeqlens& segments, at::Device device) {
  std::vector<int64_t> positions(static_cast<size_t>(segments.total()));
  for (int64_t i = 0; i < segments.count(); ++i) {
    const auto begin = positions.begin() + segments.offsets[static_cast<size_t>(i)];
    std::iota(begin, begin + segments.length(i), 0);
  }
  return at::tensor(positions, at::kLong).to(device);
}

// Every segment has an entry, those without rows too.
cuda::DeltaChunks chunks_of(const CuSeqlens& segments, at::Device device) {
  std::vector<int32_t> chunks, firsts{0};
  for (int64_t i = 0; i < segments.count(); ++i) {
    const int64_t begin = segments.offsets[static_cast<size_t>(i)], end = begin + segments.length(i);
    for (int64_t row = begin; row < end; row += kDeltaRuleChunk) {
      chunks.push_back(static_cast<int32_t>(row));
      chunks.push_back(static_cast<int32_t>(std::min(kDeltaRuleChunk, end - row)));
    }
    firsts.push_back(static_cast<int32_t>(chunks.size() / 2));
  }
  return {at::tensor(chunks, at::kInt).view({-1, 2}).to(device), at::tensor(firsts, at::kInt).to(device)};
}

}  // namespace

LinearAttentionMetadata linear_attention_metadata(const CuSeqlens& all, at::Device device, bool is_inference) {
  LinearAttentionMetadata metadata;
  while (is_inference && metadata.steps < all.count() && all.length(metadata.steps) == 1) ++metadata.steps;
  auto& segments = metadata.segments;
  for (int64_t i = metadata.steps; i < all.count(); ++i) segments.append(all.length(i));
  const int64_t longest = segments.longest(), total = segments.total();
  if (total == 0) return metadata;
  if (segments.count() > 1) metadata.positions_t = positions_of(segments, device);
  if (device.is_cuda()) metadata.of_segments = chunks_of(segments, device);
  const int64_t chunk = metadata.chunk =
      std::min(kDeltaRuleChunk, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(longest))));
  auto chunks_of = [&](int64_t segment) { return (segments.length(segment) + chunk - 1) / chunk; };
  for (int64_t i = 0; i < segments.count(); ++i)
    if (segments.length(i) > 0) metadata.order.push_back(i);
  std::ranges::stable_sort(metadata.order, [&](int64_t a, int64_t b) { return chunks_of(a) > chunks_of(b); });
  std::vector<int64_t> rows, places(static_cast<size_t>(total));
  for (int64_t step = 0; step * chunk < longest; ++step) {
    auto& size = metadata.step_sizes.emplace_back(0);
    for (int64_t segment : metadata.order) {
      if (chunks_of(segment) <= step) break;
      ++size;
      const int64_t first = segments.offsets[static_cast<size_t>(segment)] + step * chunk,
                    end = segments.offsets[static_cast<size_t>(segment) + 1];
      for (int64_t row = first; row < first + chunk; ++row) {
        if (row < end) places[static_cast<size_t>(row)] = static_cast<int64_t>(rows.size());
        rows.push_back(row < end ? row : total);
      }
    }
  }
  if (segments.count() == 1 && total % chunk == 0) return metadata;
  metadata.rows_p = at::tensor(rows, at::kLong).to(device);
  metadata.places_t = at::tensor(places, at::kLong).to(device);
  return metadata;
}

Tensor to_chunks(const Tensor& x, const LinearAttentionMetadata& metadata) {
  return metadata.rows_p.defined() ? ToChunks::apply(x, metadata.rows_p, metadata.places_t) : x;
}

Tensor from_chunks(const Tensor& x, const LinearAttentionMetadata& metadata) {
  return metadata.rows_p.defined() ? FromChunks::apply(x, metadata.rows_p, metadata.places_t) : x;
}

}  // namespace hone::ops
