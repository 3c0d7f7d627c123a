// Which tensor a handle refers to: the key of maps by parameter.
#pragma once
#include "hone/device/tensor.h"

namespace hone::device {

// Equal for all handles of a tensor and unlike that of any other, views included, while one of its handles lives.
inline const void* identity_of(const Tensor& tensor) { return tensor.unsafeGetTensorImpl(); }

}  // namespace hone::device
