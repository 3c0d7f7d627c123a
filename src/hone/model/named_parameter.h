// A parameter under its Hugging Face name.
#pragma once
#include <string>

#include "hone/device/tensor.h"

namespace hone::model {

// `value` refers to the leaf that owns it, so that a tuner can replace it.
struct NamedParameter {
  std::string name;
  Tensor* value;
};

}  // namespace hone::model
