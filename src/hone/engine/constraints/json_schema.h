// The JSON texts a schema accepts, as a pattern.
#pragma once
#include "hone/base/json.h"
#include "hone/engine/constraints/pattern.h"

namespace hone::engine {

// Properties follow the order of the schema, without additional ones. Recursive references and free-form JSON nest at most
// `depth` deep. A keyword that cannot be ignored safely is an error naming it.
Result<Pattern> schema_pattern(const Json& schema, int depth);

}  // namespace hone::engine
