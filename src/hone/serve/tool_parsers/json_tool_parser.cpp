#include "hone/serve/tool_parsers/json_tool_parser.h"

namespace hone::serve {
namespace {

bool holds_arguments(const std::string& key) { return key == "arguments" || key == "parameters"; }

}  // namespace

void JsonToolParser::step(char c) {
  if (step_ == ParseState::in_value) return step_value(c);
  if (step_ == ParseState::key) return step_key(c);
  if (is_blank(c)) return;
  switch (step_) {
    case ParseState::begin:
      c == '{' ? void(step_ = ParseState::key_or_end) : fail();
      return;
    case ParseState::key_or_end:
      key_.clear();
      c == '"' ? void(step_ = ParseState::key) : fail();
      return;
    case ParseState::colon:
      c == ':' ? void(step_ = ParseState::value) : fail();
      return;
    case ParseState::value:
      begin_value(c);
      return;
    case ParseState::comma_or_end:
      if (c == ',')
        step_ = ParseState::key_or_end;
      else if (c == '}')
        finish();
      else
        fail();
      return;
    default:
      fail();
  }
}

void JsonToolParser::step_key(char c) {
  bool escapes = !escaped_ && c == '\\';
  if (c == '"' && !escaped_) {
    step_ = ParseState::colon;
    return;
  }
  escaped_ = escapes;
  key_ += c;
  if (key_.size() > kLongestCallName) fail();
}

void JsonToolParser::begin_value(char c) {
  value_.clear();
  nesting_ = Nesting();
  step_ = ParseState::in_value;
  if (holds_arguments(key_) && c != '{' && c != '"' && c != 'n') return fail();  // an object, an object as a string, or null
  begun_ |= holds_arguments(key_) && c == '{';
  step_value(c);
}

// Tracks only nesting and strings: the model's text is passed on unchanged, whether well-formed inside or not.
void JsonToolParser::step_value(char c) {
  bool scalar = !value_.empty() && value_[0] != '{' && value_[0] != '[' && value_[0] != '"';
  if (scalar && (c == ',' || c == '}')) {
    end_value();
    return step(c);
  }
  value_ += c;
  bool streams = holds_arguments(key_) && value_[0] == '{';  // arguments given as a string are decoded when it ends
  if (streams) arguments_ += c;
  bool closed = nesting_.push(c);
  if (closed && !scalar) end_value();
}

void JsonToolParser::end_value() {
  step_ = ParseState::comma_or_end;
  if (key_ != "name" && !(holds_arguments(key_) && value_[0] == '"')) return;
  auto parsed = parse_json(value_);
  if (!parsed || !parsed->is_string()) return fail();
  auto& text = parsed->get_ref<const std::string&>();
  if (key_ == "name") {
    if (text.empty() || text.size() > kLongestCallName) return fail();
    name_ = text;
  } else if (!text.empty()) {
    arguments_ = text;
    begun_ = true;
  }
}

}  // namespace hone::serve
