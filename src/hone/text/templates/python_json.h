// JSON values as Python prints them: json.dumps(ensure_ascii=False) and str(). Tool prompts contain these, so every space
// matters.
#pragma once
#include <string>

#include "hone/base/json.h"

namespace hone::text {

// indent 0: one line with ", " and ": "; else lines indented by that many blanks.
std::string python_dumps(const Json& value, int indent = 0);

// str(value): a string stays itself, containers print as Python literals ({'a': True, 'b': None}).
std::string python_str(const Json& value);

}  // namespace hone::text
