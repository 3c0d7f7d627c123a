// Common part of the tool formats of single model series.
#pragma once
#include <string>
#include <vector>

#include "hone/text/templates/agent_format.h"
#include "hone/text/templates/python_json.h"

namespace hone::text {

inline std::string text_or_json(const Json& value) { return value.is_string() ? value.get<std::string>() : python_dumps(value); }

// One line for each of `items`.
template <class Items, class Line>
std::string lines_of(const Items& items, Line line, const char* separator = "\n") {
  std::vector<std::string> lines;
  for (const auto& item : items) lines.push_back(line(item));
  return fmt::format("{}", fmt::join(lines, separator));
}

inline std::string function_line(const Json& tool) { return python_dumps(function_of(tool)); }

// Calls and results between its own tags; a response written as an action gets its result as in ReAct.
class SeriesFormat : public AgentFormat {
 public:
  TemplateSlots results(const CallingResponse& response, const std::vector<std::string>& results,
                        const SwiftTemplate& chat_template) const override {
    return written_as_action(response.editable) ? AgentFormat::results(response, results, chat_template)
                                                : results_between(results, chat_template);
  }

 protected:
  virtual TemplateSlots results_between(const std::vector<std::string>& results, const SwiftTemplate& chat_template) const = 0;
};

}  // namespace hone::text
