// Routing: the objects that a request names determine its worker.
#pragma once
#include "hone/tinker/api/call.h"

namespace hone::tinker {

struct Destination {
  enum class Kind { any, model, run, sampler, checkpoint };
  Kind kind = Kind::any;
  std::string name;
};

// Throws ApiError(400) for an invalid body or one that names nothing.
Destination destination_of(const Call& call);
// Kind::any: its id does not tell.
Destination destination_of_future(const std::string& id);

}  // namespace hone::tinker
