// The constraint of a forced tool call: the texts of the model's own format.
#pragma once
#include "hone/engine/constraints/pattern.h"
#include "hone/serve/tool_parsers/tool_call_format.h"

namespace hone::serve {

// One call of one of `functions`, after the format's forced_lead. An error names what a schema uses that is not supported.
Result<engine::Pattern> forced_tool_call_pattern(const ToolCallFormat& syntax, const ToolSchemas& functions);

}  // namespace hone::serve
