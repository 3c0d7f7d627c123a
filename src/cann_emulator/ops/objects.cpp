#include "cann_emulator/ops/objects.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "cann_emulator/machine/memory.h"
#include "cann_emulator/machine/settings.h"

namespace cann {
namespace {

c10::Scalar read_scalar(const void* value, int type) {
  switch (scalar_type(type)) {
#define CASE(cpp, name)       \
  case c10::ScalarType::name: \
    return c10::Scalar(*static_cast<const cpp*>(value));
    CASE(float, Float)
    CASE(double, Double)
    CASE(c10::Half, Half)
    CASE(c10::BFloat16, BFloat16)
    CASE(int8_t, Char)
    CASE(uint8_t, Byte)
    CASE(int16_t, Short)
    CASE(int32_t, Int)
    CASE(int64_t, Long)
    CASE(bool, Bool)
#undef CASE
    default:
      return c10::Scalar(0);
  }
}

int64_t reach_of(const aclTensor& tensor) {
  int64_t last = tensor.offset;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 0) return 0;
    last += (tensor.sizes[i] - 1) * tensor.strides[i];
  }
  return last + 1;
}

}  // namespace

at::Tensor view(const aclTensor* tensor) {
  if (!tensor) return {};
  auto type = scalar_type(tensor->type);
  if (type == c10::ScalarType::Undefined)
    throw BadParameter(kParameterInvalid, "data type " + std::to_string(tensor->type) + " is not supported");
  if (type == c10::ScalarType::BFloat16 && !settings().has_bfloat16())
    throw BadParameter(kParameterInvalid, "DT_BFLOAT16 is not supported by " + settings().soc);
  constexpr size_t kMostDimensions = 8;
  if (tensor->sizes.size() > kMostDimensions)
    throw BadParameter(kParameterInvalid,
                       "a tensor of " + std::to_string(tensor->sizes.size()) + " dimensions; kernels take up to 8");
  int64_t elements = reach_of(*tensor);
  if (elements == 0) return at::empty(tensor->sizes, type);
  auto item = static_cast<int64_t>(c10::elementSize(type));
  if (!memory::is_device(tensor->data)) throw BadParameter(kParameterInvalid, "a tensor does not lie in device memory");
  if (reinterpret_cast<uintptr_t>(tensor->data) % 32)
    throw BadParameter(kParameterInvalid, "a tensor's storage is not aligned to 32 bytes");
  auto* base = static_cast<char*>(memory::host_pointer(tensor->data, static_cast<size_t>(elements * item)));
  if (!base) throw BadParameter(kAicoreException, "The DDR address of the MTE instruction is out of range");
  return at::from_blob(base + tensor->offset * item, tensor->sizes, tensor->strides, at::TensorOptions(type));
}

}  // namespace cann

using namespace cann;

CANN_EXPORT aclTensor* aclCreateTensor(const int64_t* sizes, uint64_t rank, int type, const int64_t* strides, int64_t offset,
                                       int format, const int64_t* storage, uint64_t storage_rank, void* data) {
  auto* out = new aclTensor{{sizes, sizes + rank}, {}, {storage, storage + storage_rank}, type, format, offset, data};
  if (strides) {
    out->strides.assign(strides, strides + rank);
  } else {
    out->strides.assign(rank, 1);
    for (size_t i = rank; i-- > 1;) out->strides[i - 1] = out->strides[i] * sizes[i];
  }
  return out;
}
CANN_EXPORT int aclDestroyTensor(const aclTensor* tensor) {
  delete tensor;
  return kOk;
}
CANN_EXPORT int aclGetViewShape(const aclTensor* tensor, int64_t** sizes, uint64_t* rank) {
  *rank = tensor->sizes.size();
  *sizes = new int64_t[tensor->sizes.size() + 1];  // owned by the caller
  std::copy(tensor->sizes.begin(), tensor->sizes.end(), *sizes);
  return kOk;
}

CANN_EXPORT aclScalar* aclCreateScalar(void* value, int type) { return new aclScalar{read_scalar(value, type), type}; }
CANN_EXPORT int aclDestroyScalar(const aclScalar* scalar) {
  delete scalar;
  return kOk;
}
CANN_EXPORT aclIntArray* aclCreateIntArray(const int64_t* values, uint64_t count) {
  return new aclIntArray{{values, values + count}};
}
CANN_EXPORT int aclDestroyIntArray(const aclIntArray* array) {
  delete array;
  return kOk;
}
CANN_EXPORT aclFloatArray* aclCreateFloatArray(const float* values, uint64_t count) {
  return new aclFloatArray{{values, values + count}};
}
CANN_EXPORT int aclDestroyFloatArray(const aclFloatArray* array) {
  delete array;
  return kOk;
}
CANN_EXPORT aclBoolArray* aclCreateBoolArray(const bool* values, uint64_t count) {
  return new aclBoolArray{std::vector<bool>(values, values + count)};
}
CANN_EXPORT int aclDestroyBoolArray(const aclBoolArray* array) {
  delete array;
  return kOk;
}
// Lists own their elements: torch_npu destroys only the list.
CANN_EXPORT aclTensorList* aclCreateTensorList(const aclTensor* const* values, uint64_t count) {
  return new aclTensorList{{values, values + count}};
}
CANN_EXPORT int aclDestroyTensorList(const aclTensorList* list) {
  for (const auto* tensor : list->values) delete tensor;
  delete list;
  return kOk;
}
CANN_EXPORT aclScalarList* aclCreateScalarList(const aclScalar* const* values, uint64_t count) {
  return new aclScalarList{{values, values + count}};
}
CANN_EXPORT int aclDestroyScalarList(const aclScalarList* list) {
  for (const auto* scalar : list->values) delete scalar;
  delete list;
  return kOk;
}
