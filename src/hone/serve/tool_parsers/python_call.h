// A call in Python syntax, with keyword arguments: f(a="x", b=[1, 2]).
#pragma once
#include "hone/serve/tool_parsers/tool_call_parser.h"

namespace hone::serve {

class PythonCall : public ToolCallParser {
 private:
  void step(char c) override;
  void end_argument();

  std::string word_;  // the name, or one argument
  bool inside_ = false;
  Nesting nesting_{"'\""};
  Json given_ = Json::object();
};

}  // namespace hone::serve
