// Routing: what a request names determines the worker that answers it.
#pragma once
#include "hone/tinker/api/call.h"

namespace hone::tinker {

struct Destination {
  enum class Kind { any, model, run, sampler, checkpoint };
  Kind kind = Kind::any;
  std::string name;
};

// Throws ApiError(400) for a body that names nothing, or is none.
Destination destination_of(const Call& call);
// Kind::any: its id does not say.
Destination destination_of_future(const std::string& id);

}  // namespace hone::tinker
