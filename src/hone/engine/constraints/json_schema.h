// The JSON texts a schema accepts, as a pattern.
#pragma once
#include "hone/base/json.h"
#include "hone/engine/constraints/pattern.h"

namespace hone::engine {

// Properties come in the order of the schema, and no others. References that lead back to themselves, and JSON without a schema,
// nest at most `depth` deep. A keyword that would be broken by leaving it aside is an error that names it.
Result<Pattern> schema_pattern(const Json& schema, int depth);

}  // namespace hone::engine
