// A call with a tag for each argument: <function=f><parameter=a>1</parameter></function>,
// f<arg_key>a</arg_key><arg_value>1</arg_value>.
#pragma once
#include "hone/serve/tool_parsers/tool_call_parser.h"

namespace hone::serve {

// "string", "integer" …; "" if the argument's schema has none.
std::string argument_type(const Json& schema);

struct TagForm {
  std::string_view name_ends;  // any of these characters
  std::string_view key_open, key_close, value_open, value_close, call_close;
  bool closes = true;  // false: the end of the completion may replace call_close
};

class TaggedCall : public ToolCallParser {
 public:
  // Starts after what opens the name. `form` and `known` must outlive the reader.
  TaggedCall(const TagForm& form, const ToolSchemas& known) : form_(form), known_(known) {}
  void end() override;

 private:
  enum class ParseState { name, between, key, before_value, value };
  void step(char c) override;
  void step_between(char c);
  void add_argument();
  void break_off();
  Json typed(const std::string& text) const;

  const TagForm& form_;
  const ToolSchemas& known_;
  ParseState step_ = ParseState::name;
  std::string word_, key_;  // the text being read; the argument's name
};

}  // namespace hone::serve
