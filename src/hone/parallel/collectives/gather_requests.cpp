#include "hone/parallel/collectives/gather_requests.h"

#include "hone/base/error.h"

namespace hone::parallel {
namespace {

constexpr int64_t kOver = -1;

}  // namespace

GatherRequests::~GatherRequests() {
  if (group_.rank() > 0) return;
  try {
    announce(kOver);
  } catch (const UserError&) {
    return;  // the other ranks ended: the next collective reports it
  }
}

int64_t GatherRequests::announce(int64_t number) const {
  auto value = at::tensor({number}, at::kLong);
  group_.broadcast(value, 0);
  return value.item<int64_t>();
}

Tensor GatherRequests::operator()(int64_t number) const {
  announce(number);
  return gather_(number);
}

void GatherRequests::follow() const {
  for (int64_t number; (number = announce(kOver)) != kOver;) gather_(number);
}

}  // namespace hone::parallel
