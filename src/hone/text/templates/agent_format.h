// How ms-swift's agent templates render tools, tool calls and tool results.
#pragma once
#include <memory>
#include <stdexcept>

#include "hone/base/json.h"
#include "hone/text/templates/template_tables.h"

namespace hone::text {

// A conversation that cannot be rendered in the chosen format; encoders convert it to the row's Error.
struct FormatError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct ToolCall {
  std::string name;
  Json arguments;
};
// {"name": …, "arguments" or "parameters": …}; arguments given as JSON text are parsed.
ToolCall parse_tool_call(const std::string& json_text);

// The keywords of a call in plain text.
struct AgentKeywords {
  const char* action = "Action:";
  const char* input = "Action Input:";
  const char* observation = "Observation:";
};

// A response followed by results. `editable`: where it may be rewritten; null if it was merged from several messages.
struct CallingResponse {
  std::string text;
  std::string* editable;
};

class AgentFormat {
 public:
  virtual ~AgentFormat() = default;
  // The system prompt that lists `tools` ({"type": "function", "function": …}); may rewrite the first user message instead.
  virtual std::string render_tools(const std::vector<Json>& tools, const std::optional<std::string>& system,
                                   std::string& first_user) const = 0;
  virtual std::string render_tool_calls(const std::vector<ToolCall>& calls) const;
  // The text between a response and the next one.
  virtual TemplateSlots results(const CallingResponse& response, const std::vector<std::string>& results,
                                const SwiftTemplate& chat_template) const;
  // Results that follow a user message directly are appended to it.
  virtual std::string standalone_results(const std::vector<std::string>& results, const SwiftTemplate& chat_template) const;
  // Results as the text of one message, for chat templates that are not ours.
  virtual std::string render_tool_results(const std::vector<std::string>& results) const;
  // The separator between `before`, the assistant text before a call, and the call. Null: the call starts the response.
  virtual std::string call_separator(const std::string* before) const {
    (void)before;
    return {};
  }

 protected:
  virtual AgentKeywords keywords() const { return {}; }
  bool written_as_action(const std::string* response) const;
};

// Null when the name is unknown.
const AgentFormat* find_agent_format(std::string_view name);
std::vector<std::string> agent_format_names();

// Families, each in its own file.
using AgentTable = std::vector<std::pair<std::string, std::unique_ptr<AgentFormat>>>;
void add_react_formats(AgentTable& table);
void add_hermes_formats(AgentTable& table);
void add_glm_formats(AgentTable& table);
void add_seed_format(AgentTable& table);
void add_deepseek_formats(AgentTable& table);
void add_minimax_formats(AgentTable& table);
void add_series_formats(AgentTable& table);

Json function_of(const Json& tool);  // the inner "function" object, or the tool itself
// Rows may have any type here: empty for other types.
std::string string_member(const Json& object, const char* key);
Json object_member(const Json& object, const char* key);
// A turn of the template with the results, preceded by the end of the response. `role` replaces "user".
TemplateSlots results_turn(const std::string& results, const SwiftTemplate& chat_template, const std::string& role = "user");

}  // namespace hone::text
