#include "hone/model/memory/activation_offload.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "hone/base/error.h"

namespace hone::model {
namespace {

c10::impl::VirtualGuardImpl streams_of(at::Device device) { return c10::impl::VirtualGuardImpl(device.type()); }

// Work submitted to `second` from now on waits for the work submitted to `first` so far.
void order(const c10::Stream& first, const c10::Stream& second) {
  c10::Event reached(first.device_type());
  reached.record(first);
  reached.block(second);
}

}  // namespace

ActivationOffloader::ActivationOffloader(at::Device device) : device_(device) {
  if (!device.is_cpu()) side_ = streams_of(device).getStreamFromGlobalPool(device);
}

Tensor ActivationOffloader::copied(const Tensor& tensor, const at::TensorOptions& to) {
  auto made = at::empty(tensor.sizes(), to);
  if (!side_) return made.copy_(tensor);
  order(streams_of(device_).getStream(device_), *side_);
  {
    c10::StreamGuard side(*side_);
    made.copy_(tensor, /*non_blocking=*/true);
  }
  (made.is_cpu() ? tensor : made).record_stream(*side_);  // its memory is not reused before the copy is done
  return made;
}

std::shared_ptr<ActivationOffloader::OffloadedActivation> ActivationOffloader::offload(const Tensor& x) {
  at::NoGradGuard no_grad;
  auto kept = std::make_shared<OffloadedActivation>(OffloadedActivation{x.detach(), Tensor(), last_});
  kept->host = copied(kept->here, x.options().device(at::kCPU).pinned_memory(side_.has_value()));
  // The last input stays: the backward pass starts with it.
  if (auto previous = last_.lock()) previous->here.reset();
  last_ = kept;
  return kept;
}

Tensor ActivationOffloader::fetch(OffloadedActivation& kept) {
  at::NoGradGuard no_grad;
  auto bring = [this](OffloadedActivation& wanted) {
    if (wanted.host.defined() && !wanted.here.defined())
      wanted.here = copied(wanted.host, wanted.host.options().device(device_).pinned_memory(false));
  };
  HONE_CHECK(kept.host.defined(), "the backward pass runs once");
  bring(kept);
  if (side_) order(*side_, streams_of(device_).getStream(device_));
  if (auto next = kept.before.lock()) bring(*next);
  kept.host.reset();
  return std::exchange(kept.here, Tensor());
}

}  // namespace hone::model
