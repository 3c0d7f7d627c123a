// Checks that the alternatives of "oneOf" are disjoint. Not for use outside of this folder.
#pragma once
#include "hone/base/json.h"
#include "hone/engine/constraints/schema_validator.h"

namespace hone::engine {

// Throws UnsupportedSchema naming two alternatives unless no text that is written for one of them (json_schema.h: its own
// properties in their order) is accepted by another. Decided by listed values, by types, and by properties that one requires;
// where that does not tell, they are taken to meet.
void require_disjoint(const Json& alternatives, SchemaResolver& view, SchemaValidator& judge);

}  // namespace hone::engine
