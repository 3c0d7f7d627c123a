#include "hone/model/layers.h"

#include "hone/ops/rms_norm.h"

namespace hone::model {

Tensor Norm::operator()(const Tensor& x) const { return ops::rms_norm(x, weight, eps); }

Tensor Embedding::operator()(const Tensor& tokens) const {
  auto result = at::embedding(weight, tokens);
  for (const auto& adapter : adapters) {
    if (!adapter.active) continue;
    auto rows = at::embedding(adapter.a.t(), tokens);
    result = result + at::linear(rows, adapter.b) * adapter.scale;
  }
  return result.to(weight.scalar_type());
}

}  // namespace hone::model
