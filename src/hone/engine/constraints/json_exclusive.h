// Whether schemas shut each other out, for "oneOf": exactly one of them may accept an answer. Not for use outside of this folder.
#pragma once
#include <functional>

#include "hone/base/json.h"

namespace hone::engine {

// A schema with its references and "allOf" replaced by what they stand for; throws SchemaRefusal.
using SchemaView = std::function<Json(const Json&)>;

// True when no text that is written for one of them (json_schema.h: its own properties in their order) is accepted by the other. Decided by
// types, values, and properties that one requires; false where that does not tell.
bool shut_each_other_out(const Json& one, const Json& other, const SchemaView& view);

}  // namespace hone::engine
