#include "hone/device/placeholder.h"

#include <algorithm>

namespace hone::device {

Tensor placeholder(at::IntArrayRef shape, const at::TensorOptions& options) {
  return at::empty(std::vector<int64_t>(shape.size(), 1), options.requires_grad(false)).expand(shape);
}

bool is_placeholder(const Tensor& tensor) {
  return tensor.numel() > 1 && std::ranges::all_of(tensor.strides(), [](int64_t stride) { return stride == 0; });
}

}  // namespace hone::device
