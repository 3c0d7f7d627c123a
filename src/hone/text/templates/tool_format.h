// LLaMA-Factory's tool formats: tool descriptions in the system prompt, and tool calls in responses.
#pragma once
#include "hone/text/templates/agent_format.h"

namespace hone::text {

struct ToolFormat {
  std::string (*describe)(const Json& tools);  // tools: a list of function specs
  std::string (*write_calls)(const std::vector<ToolCall>& calls);
};

// Null for an unknown name. Formats throw FormatError for tools or calls they cannot render.
const ToolFormat* find_tool_format(std::string_view name);
std::vector<std::string> tool_format_names();

// The text of a tool-call turn: reasoning or text around the JSON is kept, the JSON (one call or a list) is rewritten in the
// format.
std::string format_function_turn(const FactoryTemplate& chat_template, const ToolFormat& format, const std::string& content);

}  // namespace hone::text
