// Whether schemas shut each other out, for "oneOf": exactly one of them may accept an answer. Not for use outside of this folder.
#pragma once
#include "hone/base/json.h"
#include "hone/engine/constraints/schema_judge.h"

namespace hone::engine {

// Throws SchemaRefusal naming two alternatives unless no text that is written for one of them (json_schema.h: its own properties in their order) is
// accepted by another. Decided by listed values, by types, and by properties that one requires; where that does not tell, they are taken to meet.
void require_exclusive(const Json& alternatives, SchemaView& view, SchemaJudge& judge);

}  // namespace hone::engine
