// A call as a name followed by an object of arguments, in JSON or as a Python literal: "f\n{…}", "Action: f\nAction Input: {…}".
#pragma once
#include "hone/serve/tool_parsers/tool_call_parser.h"

namespace hone::serve {

struct NamedForm {
  std::string_view lead;     // may precede the name
  std::string_view between;  // between name and arguments
  bool needs_between = true;
  bool own_line = false;    // the arguments begin on another line
  bool only_known = false;  // without a mark around it a call is distinguished from prose by its name
};

class NamedCall : public ToolCallParser {
 public:
  // `form` and `known` must outlive the reader.
  NamedCall(const NamedForm& form, const ToolSchemas& known) : form_(form), known_(known) {}

 private:
  enum class ParseState { head, opened, json, python };
  enum class Fit { no, begun, whole };
  void step(char c) override;
  void step_object(char c);
  Fit fit_of_head(std::string& name) const;
  Fit fit_of_name(std::string_view name, bool more) const;

  const NamedForm& form_;
  const ToolSchemas& known_;
  ParseState step_ = ParseState::head;
  std::string head_, object_;
  Nesting nesting_;
};

}  // namespace hone::serve
