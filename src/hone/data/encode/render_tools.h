// Renders tools, tool calls and tool results into plain messages, for chat templates without a tool format.
#pragma once
#include "hone/data/encode/encoder.h"
#include "hone/text/templates/agent_format.h"

namespace hone::data {

// The format named by the command, or `fallback`; null if neither is known. UserError(usage) for an unknown name.
const text::AgentFormat* agent_format_of(const EncodeConfig& config, const std::string& fallback);

// A conversation's `tools`: a JSON list or a single tool; each as {"type": "function", "function": …}. Throws text::FormatError.
std::vector<Json> parse_tools(const std::string& tools);

// `messages` without tool_call and tool messages: calls become part of the assistant's text, results a user message, and tools
// part of the system prompt, or of the first user message if `takes_system` is false.
std::vector<Message> render_tools(const std::vector<Message>& messages, const std::vector<Json>& tools,
                                  const text::AgentFormat& format, bool takes_system);

}  // namespace hone::data
