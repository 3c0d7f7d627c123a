// aclrt memory: device, host, virtual; copies.
#include "cann_emulator/machine/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "cann_emulator/machine/errors.h"
#include "cann_emulator/machine/report.h"
#include "cann_emulator/runtime/state.h"

using namespace cann;

namespace {

// Pointers must match the copy kind: device memory where the kind says device, host memory elsewhere. CANN checks this too.
Status copy(void* to, size_t room, const void* from, size_t bytes, int kind, const Stream* stream) {
  if (bytes > room) return fail(kRuntimeParameter, "EE1001: copy of more bytes than the destination holds");
  if (bytes == 0) return kOk;
  if (auto status = status_of(stream); status != kOk) return status;
  auto direction = static_cast<CopyKind>(kind);
  bool from_device = direction == CopyKind::device_to_host || direction == CopyKind::device_to_device;
  bool to_device = direction == CopyKind::host_to_device || direction == CopyKind::device_to_device;
  if (kind >= 0 && kind <= 3 && (memory::is_device(from) != from_device || memory::is_device(to) != to_device))
    return fail(kRuntimeParameter, "EE1001: the copy's kind does not fit its addresses");
  void* target = memory::host_pointer(to, bytes);
  const void* source = memory::host_pointer(from, bytes);
  if (!target || !source) return fail(kRuntimeParameter, "EE1001: copy outside an allocation");
  std::memmove(target, source, bytes);
  report::copied(kind, bytes);
  return kOk;
}

Status on_current_device(auto&& act) {
  int device = current_device();
  if (device < 0) return fail(kNoContext, "EE1001: no context; call aclrtSetDevice first");
  if (card_lost(device)) return status_of(nullptr);
  return act(card(device));
}

}  // namespace

CANN_EXPORT Status aclrtMalloc(void** address, size_t bytes, int) {
  return on_current_device([&](int card) { return memory::allocate(card, bytes, address); });
}
CANN_EXPORT Status aclrtMallocAlign32(void** address, size_t bytes, int policy) { return aclrtMalloc(address, bytes, policy); }
CANN_EXPORT Status aclrtFree(void* address) { return memory::release(address); }

CANN_EXPORT Status aclrtMallocHost(void** address, size_t bytes) {
  *address = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return *address ? kOk : kOutOfMemory;
}
CANN_EXPORT Status aclrtFreeHost(void* address) {
  std::free(address);
  return kOk;
}

CANN_EXPORT Status aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, int kind) {
  report::waited();
  return copy(to, room, from, bytes, kind, nullptr);
}
CANN_EXPORT Status aclrtMemcpyAsync(void* to, size_t room, const void* from, size_t bytes, int kind, Stream* stream) {
  return copy(to, room, from, bytes, kind, stream);
}
CANN_EXPORT Status aclrtMemcpyAsyncWithCondition(void* to, size_t room, const void* from, size_t bytes, int kind,
                                                 Stream* stream) {
  return copy(to, room, from, bytes, kind, stream);
}

CANN_EXPORT Status aclrtMemset(void* address, size_t room, int32_t value, size_t bytes) {
  if (bytes > room) return fail(kRuntimeParameter, "EE1001: aclrtMemset of more bytes than there are");
  void* target = memory::host_pointer(address, bytes);
  if (!target) return fail(kRuntimeParameter, "EE1001: aclrtMemset outside an allocation");
  std::memset(target, value, bytes);
  return kOk;
}
CANN_EXPORT Status aclrtMemsetAsync(void* address, size_t room, int32_t value, size_t bytes, Stream*) {
  return aclrtMemset(address, room, value, bytes);
}

CANN_EXPORT Status aclrtReserveMemAddress(void** address, size_t bytes, size_t, void*, uint64_t) {
  return memory::reserve(card(std::max(0, current_device())), bytes,
                         address);  // addresses may be reserved before a device is set
}
CANN_EXPORT Status aclrtReleaseMemAddress(void* address) { return memory::unreserve(address); }
CANN_EXPORT Status aclrtMallocPhysical(void** handle, size_t bytes, const void*, uint64_t) {
  return on_current_device([&](int card) { return memory::create_physical(card, bytes, handle); });
}
CANN_EXPORT Status aclrtFreePhysical(void* handle) { return memory::destroy_physical(handle); }
CANN_EXPORT Status aclrtMapMem(void* address, size_t bytes, size_t offset, void* handle, uint64_t) {
  return memory::map(address, bytes, offset, handle);
}
CANN_EXPORT Status aclrtUnmapMem(void* address) { return memory::unmap(address); }

CANN_EXPORT Status aclrtMemExportToShareableHandle(void*, int, uint64_t, uint64_t*) { return kNotSupported; }
CANN_EXPORT Status aclrtMemSetPidToShareableHandle(uint64_t, int32_t*, size_t) { return kNotSupported; }
CANN_EXPORT Status aclrtMemImportFromShareableHandle(uint64_t, int32_t, void**) { return kNotSupported; }
