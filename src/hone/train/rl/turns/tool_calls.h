// Tool calls in a text that a model wrote, as Hermes' and ReAct's formats have them.
#pragma once
#include <string_view>
#include <vector>

#include "hone/train/rl/tools/toolbox.h"

namespace hone::train::rl {

inline constexpr size_t kMostCalls = 8;  // of one answer; further ones are not executed

// <tool_call>{"name": …, "arguments": {…}}</tool_call>, several of them. What stands there and is no call says why.
std::vector<Toolbox::Call> hermes_calls(std::string_view text);
// The last "Action: name", "Action Input: {…}" with no answer behind it.
std::vector<Toolbox::Call> react_calls(std::string_view text);

}  // namespace hone::train::rl
