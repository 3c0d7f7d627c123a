#include "hone/model/neftune.h"

#include <algorithm>

#include "hone/base/error.h"

namespace hone::model {

Tensor add_neftune_noise(const Tensor& x_th, const ForwardInput& input, double alpha, const TensorParallelRegion* region) {
  const auto& segments = input.segments;
  const int64_t rows = input.size();
  auto lengths = at::empty({rows, 1}, at::TensorOptions(at::kFloat));
  for (int64_t i = 0; i < segments.count(); ++i)
    lengths.narrow(0, segments.offsets[static_cast<size_t>(i)], segments.length(i))
        .fill_(static_cast<double>(segments.length(i)));
  auto size = (lengths * static_cast<double>(x_th.size(1))).rsqrt_().mul_(alpha).to(x_th.device(), x_th.scalar_type());
  auto noise_th = at::empty({rows, x_th.size(1)}, x_th.options().requires_grad(false)).uniform_(-1.0, 1.0) * size;
  if (x_th.size(0) == rows && !region) return x_th + noise_th;
  HONE_CHECK(region, "{} rows of embeddings for {} tokens", x_th.size(0), rows);
  const auto [begin, end] = region->own_rows(rows);
  const int64_t last = std::min(end, rows);  // padding follows
  auto own_th = begin < last ? noise_th.narrow(0, begin, last - begin) : noise_th.narrow(0, 0, 0);
  return x_th + at::constant_pad_nd(own_th, {0, 0, 0, x_th.size(0) - own_th.size(0)});
}

}  // namespace hone::model
