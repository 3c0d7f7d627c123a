#include "hone/serve/chat/call_scanner.h"

#include <utility>

#include "hone/base/json.h"

namespace hone::serve {
namespace {

bool blank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool holds_arguments(const std::string& key) { return key == "arguments" || key == "parameters"; }
constexpr size_t kLongestName = 256;

}  // namespace

size_t CallScanner::push(std::string_view text) {
  size_t used = 0;
  while (used < text.size() && state_ == State::open) step(text[used++]);
  return used;
}

std::string CallScanner::take_arguments() { return named() ? std::exchange(arguments_, {}) : std::string(); }

void CallScanner::step(char c) {
  if (place_ == Place::in_value) return step_value(c);
  if (place_ == Place::key) {
    if (escaped_)
      escaped_ = false;
    else if (c == '\\')
      escaped_ = true;
    else if (c == '"') {
      place_ = Place::colon;
      return;
    }
    key_ += c;
    if (key_.size() > kLongestName) fail();
    return;
  }
  if (blank(c)) return;
  switch (place_) {
    case Place::begin:
      c == '{' ? void(place_ = Place::key_or_end) : fail();
      return;
    case Place::key_or_end:
      key_.clear();
      c == '"' ? void(place_ = Place::key) : fail();
      return;
    case Place::colon:
      c == ':' ? void(place_ = Place::value) : fail();
      return;
    case Place::value:
      begin_value(c);
      return;
    case Place::comma_or_end:
      if (c == ',')
        place_ = Place::key_or_end;
      else if (c == '}')
        end_call();
      else
        fail();
      return;
    default:
      fail();
  }
}

void CallScanner::begin_value(char c) {
  value_.clear();
  depth_ = 0;
  in_string_ = escaped_ = false;
  place_ = Place::in_value;
  if (holds_arguments(key_) && c != '{' && c != '"' && c != 'n') return fail();  // an object, one as text, or null
  begun_ |= holds_arguments(key_) && c == '{';
  step_value(c);
}

// Follows nesting and strings only: what the model wrote is handed on as it is, well formed inside or not.
void CallScanner::step_value(char c) {
  bool container = !value_.empty() && (value_[0] == '{' || value_[0] == '[');
  bool scalar = !value_.empty() && !container && value_[0] != '"';
  if (scalar && (c == ',' || c == '}')) {
    end_value();
    return step(c);
  }
  value_ += c;
  bool streams = holds_arguments(key_) && value_[0] == '{';  // arguments given as a string are unpacked when it ends
  if (streams) arguments_ += c;
  if (in_string_) {
    if (escaped_)
      escaped_ = false;
    else if (c == '\\')
      escaped_ = true;
    else if (c == '"')
      in_string_ = false;
  } else if (c == '"') {
    in_string_ = true;
  } else if (c == '{' || c == '[') {
    ++depth_;
  } else if (c == '}' || c == ']') {
    --depth_;
  }
  bool closed = !in_string_ && depth_ == 0 && (c == '"' || c == '}' || c == ']');
  if (closed) end_value();
}

void CallScanner::end_value() {
  place_ = Place::comma_or_end;
  if (key_ != "name" && !(holds_arguments(key_) && value_[0] == '"')) return;
  auto parsed = parse_json(value_);
  if (!parsed || !parsed->is_string()) return fail();
  auto& text = parsed->get_ref<const std::string&>();
  if (key_ == "name") {
    if (text.empty() || text.size() > kLongestName) return fail();
    name_ = text;
  } else if (!text.empty()) {
    arguments_ = text;
    begun_ = true;
  }
}

void CallScanner::end_call() {
  if (!named()) return fail();
  state_ = State::done;
  if (!begun_) arguments_ = "{}";
}

}  // namespace hone::serve
