// Numbers of CANN's C interface that torch_npu sends and expects, as its call sites and the public documentation name them.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>

#define CANN_EXPORT extern "C" __attribute__((visibility("default")))

namespace cann {

using Status = int;

enum : Status {
  kOk = 0,
  kInvalidParameter = 100000,
  kRepeatedInitialize = 100002,
  kRuntimeParameter = 107000,
  kInvalidDevice = 107001,
  kNoContext = 107002,
  kWrongContext = 107003,
  kInvalidMemoryHandle = 107014,
  kNotSupported = 207000,
  kOutOfMemory = 207001,
  kGeneralFailure = 500001,
  kLostHeartbeat = 507010,
  kAicoreException = 507015,
  kParameterNull = 161001,     // aclnn, first phase
  kParameterInvalid = 161002,  // aclnn, first phase
  kInnerError = 561103,        // aclnn: no kernel for this
};

enum class Format : int { undefined = -1, nchw = 0, nhwc = 1, nd = 2, fractal_nz = 29, ncdhw = 30, ncl = 47 };
enum class CopyKind : int { host_to_host = 0, host_to_device = 1, device_to_host = 2, device_to_device = 3 };

// CANN's data type numbers ↔ libtorch's.
c10::ScalarType scalar_type(int acl_type);
int acl_type(c10::ScalarType type);

}  // namespace cann
