// Splitting, replacing and repeating text within the budget; shared by the methods of str and the filters.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hone/text/jinja/interpreter.h"
#include "hone/text/jinja/value.h"

namespace hone::text::jinja {

// `most` below zero: no limit.
std::vector<Value> split_on(Interpreter& interpreter, std::string_view text, std::string_view separator, int64_t most,
                            bool from_right);
std::vector<Value> split_space(Interpreter& interpreter, std::string_view text, int64_t most, bool from_right);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);
std::string replace_text(Interpreter& interpreter, std::string_view text, std::string_view old_text, std::string_view new_text,
                         int64_t most);
std::string repeat_text(Interpreter& interpreter, std::string_view text, int64_t count);
std::string escape_html(std::string_view text);
// `result` as markup when `origin` is: methods and filters of markup text give markup.
Value like_origin(const Value& origin, Value result);
bool is_upper_text(std::string_view text);
bool is_lower_text(std::string_view text);

}  // namespace hone::text::jinja
