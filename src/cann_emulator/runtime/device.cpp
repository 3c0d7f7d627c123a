// aclInit and the devices.
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "cann_emulator/machine/errors.h"
#include "cann_emulator/machine/memory.h"
#include "cann_emulator/machine/report.h"
#include "cann_emulator/machine/settings.h"
#include "cann_emulator/runtime/fallbacks.h"
#include "cann_emulator/runtime/state.h"

namespace cann {
namespace {

constexpr int kMostDevices = 64;
thread_local int thread_device = -1;
std::atomic<bool> initialized = false, default_device = false;
std::array<Context, kMostDevices> contexts;
std::array<std::atomic<bool>, kMostDevices> active, lost;

int device_count() { return static_cast<int>(settings().visible.size()); }
bool valid(int device) { return device >= 0 && device < device_count(); }

Status invalid_device(int device) {
  return fail(kInvalidDevice, "EE1001: [PID: 0] The argument is invalid. Reason: Set device failed, invalid device, set device=" +
                                  std::to_string(device) + ", valid device range is [0, " + std::to_string(device_count()) + ")");
}

}  // namespace

int card(int device) { return settings().visible[static_cast<size_t>(device)]; }

int current_device() {
  if (thread_device < 0 && default_device) thread_device = 0;
  return thread_device;
}

Context* context_of(int device) {
  contexts[static_cast<size_t>(device)].device = device;
  return &contexts[static_cast<size_t>(device)];
}

void mark_card_lost(int device) { lost[static_cast<size_t>(device)] = true; }
bool card_lost(int device) { return lost[static_cast<size_t>(device)]; }

Status status_of(const Stream* stream) {
  int device = stream ? stream->device : std::max(0, current_device());
  if (card_lost(device))
    return fail(kLostHeartbeat, "EE9999: Inner Error! device lost heartbeat, device_id=" + std::to_string(device));
  return stream ? stream->error.load() : kOk;
}

}  // namespace cann

using namespace cann;

CANN_EXPORT Status aclInit(const char* config) {
  if (!settings().trouble.empty()) return fail(kRuntimeParameter, settings().trouble);
  if (initialized.exchange(true)) return kRepeatedInitialize;
  if (!settings().report.empty()) watch_fallbacks();
  if (config) {
    std::ifstream file(config);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    default_device = text.find("defaultDevice") != text.npos;
  }
  return kOk;
}

CANN_EXPORT Status aclFinalize() {
  initialized = false;
  return kOk;
}

CANN_EXPORT Status aclrtGetDeviceCount(uint32_t* count) {
  *count = static_cast<uint32_t>(device_count());
  return device_count()
             ? kOk
             : fail(kRuntimeParameter, settings().trouble.empty() ? "EE1001: no device is visible" : settings().trouble);
}

CANN_EXPORT Status aclrtSetDevice(int32_t device) {
  if (!valid(device)) return invalid_device(device);
  if (card_lost(device)) return status_of(nullptr);
  thread_device = device;
  active[static_cast<size_t>(device)] = true;
  return kOk;
}

CANN_EXPORT Status aclrtGetDevice(int32_t* device) {
  if (current_device() < 0) return kNoContext;
  *device = current_device();
  return kOk;
}

CANN_EXPORT Status aclrtResetDevice(int32_t device) {
  if (!valid(device)) return invalid_device(device);
  active[static_cast<size_t>(device)] = false;
  return kOk;
}

CANN_EXPORT Status aclrtGetPrimaryCtxState(int32_t device, uint32_t* flags, int32_t* is_active) {
  if (!valid(device)) return invalid_device(device);
  if (flags) *flags = 0;
  *is_active = active[static_cast<size_t>(device)];
  return kOk;
}

CANN_EXPORT Status aclrtGetCurrentContext(void** context) {
  if (current_device() < 0) return kNoContext;
  *context = context_of(current_device());
  return kOk;
}

CANN_EXPORT Status aclrtSetCurrentContext(void* context) {
  if (!context) return fail(kWrongContext, "EE1001: null context");
  thread_device = static_cast<Context*>(context)->device;
  return kOk;
}

CANN_EXPORT const char* aclrtGetSocName() { return settings().soc.c_str(); }

CANN_EXPORT Status aclrtGetMemInfo(int attribute, size_t* free, size_t* total) {
  if (current_device() < 0) return kNoContext;
  auto use = memory::use(card(current_device()));
  *free = use.free, *total = use.total;
  return kOk;
}

CANN_EXPORT Status aclrtSynchronizeDevice() {
  report::waited();
  return status_of(nullptr);
}
CANN_EXPORT Status aclrtSynchronizeDeviceWithTimeout(int32_t) { return aclrtSynchronizeDevice(); }

CANN_EXPORT Status aclrtDeviceCanAccessPeer(int32_t* can, int32_t device, int32_t peer) {
  if (!valid(device) || !valid(peer)) return invalid_device(valid(device) ? peer : device);
  *can = device != peer;
  return kOk;
}
CANN_EXPORT Status aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t) { return valid(peer) ? kOk : invalid_device(peer); }
CANN_EXPORT Status aclrtDeviceTaskAbort(int32_t, uint32_t) { return kOk; }
CANN_EXPORT Status aclrtDeviceGetBareTgid(int32_t* pid) {
  *pid = 1;
  return kOk;
}
CANN_EXPORT Status aclrtDeviceGetUuid(int32_t device, char* uuid) {
  std::memset(uuid, 0, 16);
  uuid[15] = static_cast<char>(card(device) + 1);
  return kOk;
}
CANN_EXPORT Status aclrtGetLogicDevIdByUserDevId(int32_t user, int32_t* logic) {
  if (!valid(user)) return invalid_device(user);
  *logic = card(user);
  return kOk;
}
