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
// Whether the request creates a run or a sampler in a session, which its worker must have.
bool begins_in_session(std::string_view path, const Call& call);
// Kind::any: it does not follow from the id.
Destination destination_of_future(const std::string& id);

}  // namespace hone::tinker
