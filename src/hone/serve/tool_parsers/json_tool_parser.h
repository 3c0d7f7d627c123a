// A call as an object: {"name": …, "arguments" or "parameters": {…}}.
#pragma once
#include "hone/serve/tool_parsers/tool_call_parser.h"

namespace hone::serve {

class JsonToolParser : public ToolCallParser {
 private:
  enum class ParseState { begin, key_or_end, key, colon, value, in_value, comma_or_end };
  void step(char c) override;
  void step_key(char c);
  void step_value(char c);
  void begin_value(char c);
  void end_value();

  ParseState step_ = ParseState::begin;
  Nesting nesting_;
  std::string key_, value_;
  bool escaped_ = false;
};

}  // namespace hone::serve
