#include "hone/serve/tool_parsers/tagged_call.h"

#include <algorithm>

#include "hone/base/strings/trimmed.h"
#include "hone/data/formats/python_literal.h"

namespace hone::serve {
namespace {

std::string json_text(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string argument_type(const Json& schema) {
  if (!schema.is_object()) return "";
  if (auto type = schema.find("type"); type != schema.end() && type->is_string()) return type->get<std::string>();
  if (schema.value("const", Json()).is_string()) return "string";
  auto listed = schema.find("enum");
  bool texts = listed != schema.end() && listed->is_array() && !listed->empty() &&
               std::ranges::all_of(*listed, [](const Json& value) { return value.is_string(); });
  return texts ? "string" : "";
}

// Tags contain plain text, whose type the schema gives. Text of the wrong type stays text: the client decides.
Json TaggedCall::typed(const std::string& text) const {
  Json schema;
  if (auto function = known_.find(name_); function != known_.end() && function->second.is_object())
    if (auto all = function->second.find("properties"); all != function->second.end() && all->is_object())
      schema = all->value(key_, Json());
  auto type = argument_type(schema);
  if (type == "string") return text;
  auto bare = trimmed(text);
  auto parsed = parse_json(bare, {.depth = 64});
  if (!parsed && !type.empty()) parsed = data::parse_python_literal(bare);
  return parsed ? std::move(*parsed) : Json(text);
}

void TaggedCall::add_argument() {
  std::string_view value = word_;
  value.remove_suffix(form_.value_close.size());
  if (value.starts_with('\n')) value.remove_prefix(1);
  if (value.ends_with('\n')) value.remove_suffix(1);
  arguments_ += (begun_ ? ", " : "{") + json_text(key_) + ": " + json_text(typed(std::string(value)));
  begun_ = true;
  word_.clear();
  step_ = ParseState::between;
}

// Once it has arguments it is a call, whatever follows them.
void TaggedCall::break_off() {
  if (!begun_) return fail();
  arguments_ += "}";
  finish();
}

void TaggedCall::step_between(char c) {
  if (word_.empty() && (is_blank(c) || c == '>')) return;  // the rest of the previous tag, and formatting
  word_ += c;
  if (word_ == form_.key_open) {
    word_.clear();
    step_ = ParseState::key;
  } else if (word_ == form_.call_close) {
    if (begun_) arguments_ += "}";
    finish();
  } else if (!form_.key_open.starts_with(word_) && !form_.call_close.starts_with(word_)) {
    break_off();
  }
}

void TaggedCall::step(char c) {
  switch (step_) {
    case ParseState::name:
      if (form_.name_ends.find(c) == form_.name_ends.npos) {
        if (is_blank(c) && word_.empty()) return;
        word_ += c;
        if (!is_name_character(c) || word_.size() > 64) fail();
        return;
      }
      if (word_.empty()) return is_blank(c) ? void() : fail();
      name_ = std::exchange(word_, {});
      step_ = ParseState::between;
      return c == '<' ? step_between(c) : void();
    case ParseState::between:
      return step_between(c);
    case ParseState::key:
      word_ += c;
      if (word_.size() > kLongestCallName) return break_off();
      if (!word_.ends_with(form_.key_close)) return;
      key_ = trimmed(std::string_view(word_).substr(0, word_.size() - form_.key_close.size()));
      word_.clear();
      step_ = form_.value_open.empty() ? ParseState::value : ParseState::before_value;
      return;
    case ParseState::before_value:
      if (word_.empty() && is_blank(c)) return;
      word_ += c;
      if (!form_.value_open.starts_with(word_)) return break_off();
      if (word_ != form_.value_open) return;
      word_.clear();
      step_ = ParseState::value;
      return;
    case ParseState::value:
      word_ += c;
      if (word_.ends_with(form_.value_close)) add_argument();
      return;
  }
}

void TaggedCall::end() {
  if (form_.closes || step_ != ParseState::between || !word_.empty()) return;
  if (begun_) arguments_ += "}";
  finish();
}

}  // namespace hone::serve
