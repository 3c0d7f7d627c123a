// Checks that the alternatives of "oneOf" are disjoint. Internal to this folder.
#pragma once
#include "hone/base/json.h"
#include "hone/engine/constraints/schema_validator.h"

namespace hone::engine {

// Throws UnsupportedSchema naming two alternatives unless no text generated for one of them (json_schema.h: its own properties in
// order) is accepted by another. Decided by listed values, by types, and by required properties; if that is inconclusive, they
// count as overlapping.
void require_disjoint(const Json& alternatives, SchemaResolver& view, SchemaValidator& validator);

}  // namespace hone::engine
