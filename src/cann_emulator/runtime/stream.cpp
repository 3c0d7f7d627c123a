// aclrt streams, events and callbacks.
#include <chrono>

#include "cann_emulator/machine/errors.h"
#include "cann_emulator/machine/report.h"
#include "cann_emulator/runtime/state.h"

using namespace cann;

namespace {

std::atomic<int> next_stream = 1;

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

Status wait_for(const Stream* stream) {
  report::waited();
  return status_of(stream);
}

}  // namespace

CANN_EXPORT Status aclrtCreateStreamWithConfig(Stream** stream, uint32_t, uint32_t) {
  if (current_device() < 0) return fail(kNoContext, "EE1001: no context; call aclrtSetDevice first");
  *stream = new Stream{current_device(), next_stream++};
  return kOk;
}
CANN_EXPORT Status aclrtCreateStream(Stream** stream) { return aclrtCreateStreamWithConfig(stream, 0, 0); }
CANN_EXPORT Status aclrtDestroyStream(Stream* stream) {
  delete stream;
  return kOk;
}
CANN_EXPORT Status aclrtDestroyStreamForce(Stream* stream) { return aclrtDestroyStream(stream); }
CANN_EXPORT Status aclrtSynchronizeStream(Stream* stream) { return wait_for(stream); }
CANN_EXPORT Status aclrtSynchronizeStreamWithTimeout(Stream* stream, int32_t) { return wait_for(stream); }
CANN_EXPORT Status aclrtStreamQuery(Stream* stream, int* status) {
  *status = 0;  // complete
  return status_of(stream);
}
CANN_EXPORT Status aclrtStreamGetId(Stream* stream, int32_t* id) {
  *id = stream ? stream->id : 0;
  return kOk;
}
CANN_EXPORT Status aclrtSetStreamFailureMode(Stream*, uint64_t) { return kOk; }
CANN_EXPORT Status aclrtSetStreamAttribute(Stream*, int, void*) { return kOk; }
CANN_EXPORT Status aclrtSetStreamOverflowSwitch(Stream*, uint32_t) { return kOk; }
CANN_EXPORT Status aclrtGetStreamOverflowSwitch(Stream*, uint32_t* on) {
  *on = 0;
  return kOk;
}

CANN_EXPORT Status aclrtCreateEventExWithFlag(Event** event, uint32_t) {
  *event = new Event;
  return kOk;
}
CANN_EXPORT Status aclrtCreateEventWithFlag(Event** event, uint32_t flag) { return aclrtCreateEventExWithFlag(event, flag); }
CANN_EXPORT Status aclrtDestroyEvent(Event* event) {
  delete event;
  return kOk;
}
CANN_EXPORT Status aclrtRecordEvent(Event* event, Stream* stream) {
  event->recorded_at = now();
  return stream && card_lost(stream->device) ? status_of(stream) : kOk;
}
CANN_EXPORT Status aclrtResetEvent(Event*, Stream*) { return kOk; }
CANN_EXPORT Status aclrtStreamWaitEvent(Stream*, Event*) { return kOk; }
CANN_EXPORT Status aclrtSynchronizeEvent(Event*) { return wait_for(nullptr); }
CANN_EXPORT Status aclrtQueryEventStatus(Event* event, int* status) {
  *status = event->recorded_at >= 0;
  return kOk;
}
CANN_EXPORT Status aclrtQueryEventWaitStatus(Event*, int* status) {
  *status = 0;  // complete
  return kOk;
}
CANN_EXPORT Status aclrtEventElapsedTime(float* milliseconds, Event* start, Event* end) {
  *milliseconds = static_cast<float>(end->recorded_at - start->recorded_at) * 1e-6f;
  return kOk;
}
CANN_EXPORT Status aclrtEventGetTimestamp(Event* event, uint64_t* microseconds) {
  *microseconds = static_cast<uint64_t>(event->recorded_at / 1000);
  return kOk;
}

CANN_EXPORT Status aclrtLaunchCallback(void (*callback)(void*), void* data, int, Stream*) {
  callback(data);
  return kOk;
}
CANN_EXPORT Status aclrtLaunchHostFunc(Stream*, void (*callback)(void*), void* data) {
  callback(data);
  return kOk;
}
CANN_EXPORT Status aclrtSubscribeReport(uint64_t, Stream*) { return kOk; }
CANN_EXPORT Status aclrtUnSubscribeReport(uint64_t, Stream*) { return kOk; }
CANN_EXPORT Status aclrtProcessReport(int32_t) { return kOk; }
