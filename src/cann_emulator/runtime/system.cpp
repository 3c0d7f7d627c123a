// Versions, capabilities, system parameters, messages and profiling that torch_npu queries.
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "cann_emulator/machine/errors.h"
#include "cann_emulator/machine/report.h"
#include "cann_emulator/machine/settings.h"

using namespace cann;

namespace {

std::mutex mutex;
std::map<int, int64_t> parameters;
std::map<int, std::string> compile_options;
constexpr int kJitCompile = 10, kDeterministic = 0;  // CANN's enum values of a compile option and of a system parameter

// Operators are never compiled here, on any chip: torch_npu then uses aclnn.
std::string compile_option(int option) {
  std::lock_guard lock(mutex);
  auto found = compile_options.find(option);
  if (found != compile_options.end()) return found->second;
  return option == kJitCompile ? "disable" : "";
}

struct PackageVersion {
  char version[128], major[64], minor[64], release[64], patch[64], reserved[128];
};

}  // namespace

CANN_EXPORT Status aclsysGetCANNVersion(int, PackageVersion* out) {
  *out = {};
  std::strncpy(out->version, settings().cann.c_str(), sizeof out->version - 1);
  return kOk;
}
CANN_EXPORT Status aclsysGetVersionStr(char*, char* version) {
  std::strcpy(version, settings().cann.c_str());
  return kOk;
}

CANN_EXPORT const char* aclGetRecentErrMsg() {
  static thread_local std::string text;
  text = take_error();
  return text.empty() ? nullptr : text.c_str();
}
CANN_EXPORT void aclAppLog(int, const char*, const char*, uint32_t, const char*, ...) {}

CANN_EXPORT Status aclGetCannAttribute(int, int32_t* value) {
  *value = settings().has_inf_nan();
  return kOk;
}
CANN_EXPORT Status aclGetDeviceCapability(uint32_t, int, int64_t* value) {
  *value = 20;  // cube cores of a 910B3
  return kOk;
}
CANN_EXPORT Status aclrtSetDeviceSatMode(int) { return kOk; }
CANN_EXPORT Status aclrtSetOpExecuteTimeOut(uint32_t) { return kOk; }
CANN_EXPORT Status aclrtSetOpExecuteTimeOutV2(uint64_t wanted, uint64_t* actual) {
  if (actual) *actual = wanted;
  return kOk;
}
CANN_EXPORT Status aclrtSetOpWaitTimeout(uint32_t) { return kOk; }

CANN_EXPORT Status aclrtSetSysParamOpt(int option, int64_t value) {
  std::lock_guard lock(mutex);
  parameters[option] = value;
  if (option == kDeterministic && value) report::became_deterministic();
  return kOk;
}
CANN_EXPORT Status aclrtCtxSetSysParamOpt(int option, int64_t value) { return aclrtSetSysParamOpt(option, value); }
CANN_EXPORT Status aclrtGetSysParamOpt(int option, int64_t* value) {
  std::lock_guard lock(mutex);
  *value = parameters[option];
  return kOk;
}

CANN_EXPORT Status aclSetCompileopt(int option, const char* value) {
  std::lock_guard lock(mutex);
  compile_options[option] = value;
  return kOk;
}
CANN_EXPORT size_t aclGetCompileoptSize(int option) { return compile_option(option).size() + 1; }
CANN_EXPORT Status aclGetCompileopt(int option, char* value, size_t length) {
  auto text = compile_option(option);
  if (length <= text.size()) return kInvalidParameter;
  std::memcpy(value, text.c_str(), text.size() + 1);
  return kOk;
}

CANN_EXPORT Status aclmdlInitDump() { return kOk; }
CANN_EXPORT Status aclmdlSetDump(const char*) { return kOk; }
CANN_EXPORT Status aclmdlFinalizeDump() { return kOk; }

CANN_EXPORT Status aclrtGetLastError(int) { return kOk; }
CANN_EXPORT Status aclrtPeekAtLastError(int) { return kOk; }

// Custom kernels compiled for a card cannot run on the CPU.
CANN_EXPORT Status aclrtBinaryLoadFromData(const void*, size_t, const void*, void**) { return kNotSupported; }
CANN_EXPORT Status aclrtBinaryGetFunction(const void*, const char*, void**) { return kNotSupported; }
CANN_EXPORT Status aclrtGetFunctionAddr(void*, void**, void**) { return kNotSupported; }
CANN_EXPORT Status rtDevBinaryRegister(const void*, void**) { return kNotSupported; }
CANN_EXPORT Status rtFunctionRegister(void*, const void*, const char*, const void*, uint32_t) { return kNotSupported; }
CANN_EXPORT Status rtKernelLaunch(const void*, uint32_t, void*, uint32_t, void*, void*) { return kNotSupported; }
CANN_EXPORT Status rtGetC2cCtrlAddr(uint64_t*, uint32_t*) { return kNotSupported; }

CANN_EXPORT uint64_t MsprofGetHashId(const char*, size_t) { return 0; }
CANN_EXPORT int32_t MsprofRegisterCallback(uint32_t, void*) { return 0; }
CANN_EXPORT int32_t MsprofReportAdditionalInfo(uint32_t, const void*, uint32_t) { return 0; }
CANN_EXPORT int32_t MsprofReportApi(uint32_t, const void*) { return 0; }
CANN_EXPORT int32_t MsprofReportCompactInfo(uint32_t, const void*, uint32_t) { return 0; }
CANN_EXPORT uint64_t MsprofSysCycleTime() { return 0; }
