// What the output is held to when a request wants a call: the texts of the model's own form.
#pragma once
#include "hone/engine/constraints/pattern.h"
#include "hone/serve/calls/syntax.h"

namespace hone::serve {

// One call of one of `functions`, behind the form's forced_lead. An error names what of a schema cannot be followed.
Result<engine::Pattern> forced_call_pattern(const CallSyntax& syntax, const ToolSchemas& functions);

}  // namespace hone::serve
