// The older road of operators: descriptions and attributes are accepted, but no operator stands behind it. torch_npu takes it
// where an aclnn name is absent, so what arrives here is the list of what is missing.
#include <cstring>
#include <string>
#include <vector>

#include "cann_emulator/machine/errors.h"
#include "cann_emulator/machine/report.h"

using namespace cann;

namespace {

struct TensorDescription {
  int type;
  std::vector<int64_t> dims;
  int format;
};

struct Attributes {};

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

CANN_EXPORT void* aclCreateDataBuffer(void*, size_t) { return new char; }
CANN_EXPORT Status aclDestroyDataBuffer(const void* buffer) {
  delete static_cast<const char*>(buffer);
  return kOk;
}

CANN_EXPORT Attributes* aclopCreateAttr() { return new Attributes; }
CANN_EXPORT void aclopDestroyAttr(const Attributes* attributes) { delete attributes; }
CANN_EXPORT Status aclopSetAttrBool(Attributes*, const char*, uint8_t) { return kOk; }
CANN_EXPORT Status aclopSetAttrInt(Attributes*, const char*, int64_t) { return kOk; }
CANN_EXPORT Status aclopSetAttrFloat(Attributes*, const char*, float) { return kOk; }
CANN_EXPORT Status aclopSetAttrString(Attributes*, const char*, const char*) { return kOk; }
CANN_EXPORT Status aclopSetAttrDataType(Attributes*, const char*, int) { return kOk; }
CANN_EXPORT Status aclopSetAttrListInt(Attributes*, const char*, int, const int64_t*) { return kOk; }
CANN_EXPORT Status aclopSetAttrListFloat(Attributes*, const char*, int, const float*) { return kOk; }
CANN_EXPORT Status aclopSetAttrListBool(Attributes*, const char*, int, const uint8_t*) { return kOk; }
CANN_EXPORT Status aclopSetAttrListListInt(Attributes*, const char*, int, const int*, const int64_t* const*) { return kOk; }

CANN_EXPORT Status aclopCompileAndExecute(const char* op, int, const void* const*, const void* const*, int, const void* const*,
                                          void* const*, const Attributes*, int, int, const char*, void*) {
  report::missing(std::string("aclop ") + op);
  return fail(kInnerError, std::string("EZ9999: Inner Error! the emulated CANN has no kernel for operator ") + op);
}
CANN_EXPORT Status aclopCompileAndExecuteV2(const char* op, int a, void** b, void** c, int d, void** e, void** f, Attributes* g,
                                            int h, int i, const char* j, void* k) {
  return aclopCompileAndExecute(op, a, b, c, d, e, f, g, h, i, j, k);
}
