// The older operator interface, by name and description. torch_npu uses it where no aclnn function exists: the few such operators
// are in ops/named.cpp, and any other call here is reported as a missing operator.
#include <cstring>
#include <string>
#include <vector>

#include "cann_emulator/machine/errors.h"
#include "cann_emulator/machine/report.h"
#include "cann_emulator/ops/named.h"

using namespace cann;

namespace {

struct TensorDescription {
  int type;
  std::vector<int64_t> dims;
  int format;
};

struct DataBuffer {
  void* data;
  size_t bytes;
};

// As contiguous tensors, the layout of this interface.
std::vector<aclTensor> described(int count, const TensorDescription* const* descriptions, const DataBuffer* const* buffers) {
  std::vector<aclTensor> out;
  for (int i = 0; i < count; ++i) {
    const auto& dims = descriptions[i]->dims;
    aclTensor tensor{
        dims, std::vector<int64_t>(dims.size(), 1), dims, descriptions[i]->type, descriptions[i]->format, 0, buffers[i]->data};
    for (size_t d = dims.size(); d-- > 1;) tensor.strides[d - 1] = tensor.strides[d] * dims[d];
    out.push_back(std::move(tensor));
  }
  return out;
}

}  // namespace

CANN_EXPORT TensorDescription* aclCreateTensorDesc(int type, int rank, const int64_t* dims, int format) {
  return new TensorDescription{type, {dims, dims + rank}, format};
}
CANN_EXPORT void aclDestroyTensorDesc(const TensorDescription* description) { delete description; }
CANN_EXPORT int aclGetTensorDescType(const TensorDescription* description) { return description->type; }
CANN_EXPORT int aclGetTensorDescFormat(const TensorDescription* description) { return description->format; }
CANN_EXPORT size_t aclGetTensorDescNumDims(const TensorDescription* description) { return description->dims.size(); }
CANN_EXPORT Status aclGetTensorDescDimV2(const TensorDescription* description, size_t index, int64_t* size) {
  if (index >= description->dims.size()) return kInvalidParameter;
  *size = description->dims[index];
  return kOk;
}
CANN_EXPORT void aclSetTensorDescName(TensorDescription*, const char*) {}
CANN_EXPORT Status aclSetTensorFormat(TensorDescription* description, int format) {
  description->format = format;
  return kOk;
}
CANN_EXPORT Status aclSetTensorShape(TensorDescription* description, int rank, const int64_t* dims) {
  description->dims.assign(dims, dims + rank);
  return kOk;
}
CANN_EXPORT Status aclSetTensorPlaceMent(TensorDescription*, int) { return kOk; }
CANN_EXPORT Status aclSetTensorConst(TensorDescription*, void*, size_t) { return kOk; }

CANN_EXPORT DataBuffer* aclCreateDataBuffer(void* data, size_t bytes) { return new DataBuffer{data, bytes}; }
CANN_EXPORT Status aclDestroyDataBuffer(const DataBuffer* buffer) {
  delete buffer;
  return kOk;
}

CANN_EXPORT Attributes* aclopCreateAttr() { return new Attributes; }
CANN_EXPORT void aclopDestroyAttr(const Attributes* attributes) { delete attributes; }
CANN_EXPORT Status aclopSetAttrBool(Attributes* attributes, const char* name, uint8_t value) {
  attributes->flags[name] = value != 0;
  return kOk;
}
CANN_EXPORT Status aclopSetAttrInt(Attributes*, const char*, int64_t) { return kOk; }
CANN_EXPORT Status aclopSetAttrFloat(Attributes*, const char*, float) { return kOk; }
CANN_EXPORT Status aclopSetAttrString(Attributes*, const char*, const char*) { return kOk; }
CANN_EXPORT Status aclopSetAttrDataType(Attributes*, const char*, int) { return kOk; }
CANN_EXPORT Status aclopSetAttrListInt(Attributes*, const char*, int, const int64_t*) { return kOk; }
CANN_EXPORT Status aclopSetAttrListFloat(Attributes*, const char*, int, const float*) { return kOk; }
CANN_EXPORT Status aclopSetAttrListBool(Attributes*, const char*, int, const uint8_t*) { return kOk; }
CANN_EXPORT Status aclopSetAttrListListInt(Attributes*, const char*, int, const int*, const int64_t* const*) { return kOk; }

CANN_EXPORT Status aclopCompileAndExecute(const char* op, int input_count, const TensorDescription* const* input_descriptions,
                                          const DataBuffer* const* inputs, int output_count,
                                          const TensorDescription* const* output_descriptions, DataBuffer* const* outputs,
                                          const Attributes* attributes, int, int, const char*, void* stream) {
  auto from = described(input_count, input_descriptions, inputs), to = described(output_count, output_descriptions, outputs);
  // Operators without attributes come with a null object.
  if (auto* executor = named_operator(op, from, to, attributes ? *attributes : Attributes())) return launch(executor, stream);
  report::missing(std::string("aclop ") + op);
  return fail(kInnerError, std::string("EZ9999: Inner Error! the emulated CANN has no kernel for operator ") + op);
}
CANN_EXPORT Status aclopCompileAndExecuteV2(const char* op, int input_count, TensorDescription** input_descriptions,
                                            DataBuffer** inputs, int output_count, TensorDescription** output_descriptions,
                                            DataBuffer** outputs, Attributes* attributes, int engine, int flag, const char* path,
                                            void* stream) {
  return aclopCompileAndExecute(op, input_count, input_descriptions, inputs, output_count, output_descriptions, outputs,
                                attributes, engine, flag, path, stream);
}
