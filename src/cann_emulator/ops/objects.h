// The arguments of an aclnn call: tensors, scalars and lists as torch_npu describes them to CANN.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <vector>

#include "cann_emulator/acl/types.h"

struct aclTensor {
  std::vector<int64_t> sizes, strides, storage;
  int type, format;
  int64_t offset;
  void* data;
};
struct aclScalar {
  c10::Scalar value;
  int type;
};
struct aclIntArray {
  std::vector<int64_t> values;
};
struct aclFloatArray {
  std::vector<float> values;
};
struct aclBoolArray {
  std::vector<bool> values;
};
struct aclTensorList {
  std::vector<const aclTensor*> values;
};
struct aclScalarList {
  std::vector<const aclScalar*> values;
};

namespace cann {

// The tensor as the CPU can compute on it. Undefined for null. Throws BadParameter when it reaches outside allocated memory or
// its type is unknown to the chip.
at::Tensor view(const aclTensor* tensor);

class BadParameter : public std::runtime_error {
 public:
  BadParameter(Status code, const std::string& text) : std::runtime_error(text), code(code) {}
  Status code;
};

}  // namespace cann
