#include "hone/serve/tool_parsers/python_call.h"

#include <algorithm>

#include "hone/base/trimmed.h"
#include "hone/data/formats/python_literal.h"

namespace hone::serve {

void PythonCall::end_argument() {
  auto argument = trimmed(std::exchange(word_, {}));
  if (argument.empty()) return;
  auto equals = argument.find('=');
  auto key = trimmed(std::string_view(argument).substr(0, equals));
  if (equals == argument.npos || key.empty() || !std::ranges::all_of(key, is_name_character)) return fail();
  auto value = data::parse_value_text(trimmed(std::string_view(argument).substr(equals + 1)));
  if (!value) return fail();
  given_[key] = std::move(*value);
}

void PythonCall::step(char c) {
  if (!inside_) {
    if (c == '(' && !word_.empty()) {
      name_ = std::exchange(word_, {});
      inside_ = true;
    } else if (is_name_character(c) && word_.size() < 64) {
      word_ += c;
    } else if (!is_blank(c) || !word_.empty()) {
      fail();
    }
    return;
  }
  bool ends_call = c == ')' && nesting_.outside();
  if (!ends_call && !(c == ',' && nesting_.outside())) {
    nesting_.push(c);
    word_ += c;
    return;
  }
  end_argument();
  if (!ends_call || state_ == State::bad) return;
  arguments_ = given_.dump(-1, ' ', false, Json::error_handler_t::replace);
  begun_ = true;
  finish();
}

}  // namespace hone::serve
