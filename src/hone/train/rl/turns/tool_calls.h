// Parses tool calls in a completion, in Hermes' and ReAct's formats.
#pragma once
#include <string_view>
#include <vector>

#include "hone/train/rl/tools/toolbox.h"

namespace hone::train::rl {

inline constexpr size_t kMostCalls = 8;  // per completion; further ones are not executed

// <tool_call>{"name": …, "arguments": {…}}</tool_call>, several of them. An invalid call holds the reason.
std::vector<Toolbox::Call> hermes_calls(std::string_view text);
// The last "Action: name", "Action Input: {…}" without an observation after it.
std::vector<Toolbox::Call> react_calls(std::string_view text);

}  // namespace hone::train::rl
