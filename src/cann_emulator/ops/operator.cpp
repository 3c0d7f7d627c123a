#include "cann_emulator/ops/operator.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <memory>

#include "cann_emulator/machine/errors.h"
#include "cann_emulator/machine/fault_injection.h"
#include "cann_emulator/machine/memory.h"
#include "cann_emulator/machine/report.h"
#include "cann_emulator/runtime/state.h"

namespace cann {
namespace {

// Kernels run as plain CPU operators, regardless of the calling thread's autograd or autocast state.
struct PlainComputation {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset};
};

Status bad_parameter(const char* name, Status code, const std::string& text) {
  const char* head = code == kAicoreException ? "EZ9999: Inner Error! The error from device: " : "EZ1001: [PID: 0] ";
  return fail(code, std::string(head) + name + ": " + text);
}

Status meet_fault(faults::Kind kind, const char* name, Stream* stream) {
  if (kind == faults::Kind::lost) {
    mark_card_lost(stream ? stream->device : std::max(0, current_device()));
    return status_of(stream);
  }
  if (stream) stream->error = kAicoreException;
  fail(kAicoreException,
       std::string("EZ9999: Inner Error!\nThe error from device(chipId:0, dieId:0), serial number is 1, there is an aicore "
                   "error exception, core id is 0, error code = 0x800000, kernel_name=") +
           name);
  return kOk;  // hardware reports it only when the stream is synchronized
}

}  // namespace

void store(Tensor out, const Tensor& value) {
  if (!out.defined()) return;
  if (out.sizes() != value.sizes() && value.numel() != 1)
    throw BadParameter(kParameterInvalid, c10::str("expected an output of shape ", value.sizes(), ", got ", out.sizes()));
  out.copy_(value);
}

void DynamicOutput::store(const Tensor& value) const {
  object->sizes = value.sizes().vec();
  object->strides = value.contiguous().strides().vec();
  view(object).copy_(value);
}

Status prepared(const char* name, uint64_t* workspace, aclOpExecutor** executor,
                const std::function<std::function<void()>()>& keep) {
  if (!workspace || !executor) return bad_parameter(name, kParameterNull, "workspaceSize or executor is null");
  report::prepared();
  try {
    *workspace = 0;
    *executor = new aclOpExecutor{name, keep()};
    return kOk;
  } catch (const BadParameter& error) {
    return bad_parameter(name, error.code, error.what());
  }
}

Status launch(aclOpExecutor* executor, void* opaque_stream) {
  std::unique_ptr<aclOpExecutor> own(executor);
  auto* stream = static_cast<Stream*>(opaque_stream);
  if (stream && card_lost(stream->device)) return status_of(stream);
  report::launched(own->name);
  if (auto fault = faults::fault_at_launch(own->name); fault != faults::Kind::none) return meet_fault(fault, own->name, stream);
  try {
    PlainComputation plain;
    own->run();
    return kOk;
  } catch (const BadParameter& error) {
    return bad_parameter(own->name, error.code, error.what());
  } catch (const c10::IndexError&) {  // a card does not check: the kernel reads out of bounds and aborts
    return meet_fault(faults::Kind::kernel, own->name, stream);
  } catch (const c10::Error& error) {
    return bad_parameter(own->name, kParameterInvalid, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return bad_parameter(own->name, kParameterInvalid, error.what());
  }
}

}  // namespace cann

CANN_EXPORT int aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  delete executor;
  return cann::kOk;
}
