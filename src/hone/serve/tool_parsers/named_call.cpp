#include "hone/serve/tool_parsers/named_call.h"

#include <algorithm>

#include "hone/data/formats/python_literal.h"

namespace hone::serve {
namespace {

constexpr size_t kLongestHead = 512;
constexpr std::string_view kFence = "```json", kLayout = " \n\r\t";

std::string_view without_blanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kLayout), text.size()));
  return text;
}

}  // namespace

NamedCall::Fit NamedCall::fit_of_name(std::string_view name, bool more) const {
  if (name.empty() || name.size() > 64) return Fit::no;
  if (!form_.only_known) return Fit::whole;
  auto fits = [&](const auto& entry) { return more ? entry.first == name : entry.first.starts_with(name); };
  return std::ranges::any_of(known_, fits) ? Fit::whole : Fit::no;
}

// Whether the text before the arguments matches the format, is a prefix of a match, or can never match.
NamedCall::Fit NamedCall::fit_of_head(std::string& name) const {
  auto rest = without_blanks(head_);
  if (form_.lead.size() > rest.size() && form_.lead.starts_with(rest)) return Fit::begun;
  if (rest.starts_with(form_.lead)) rest = without_blanks(rest.substr(form_.lead.size()));
  auto end = std::ranges::find_if_not(rest, is_name_character) - rest.begin();
  name = rest.substr(0, static_cast<size_t>(end));
  rest.remove_prefix(name.size());
  if (rest.empty() && name.empty()) return Fit::begun;
  if (fit_of_name(name, !rest.empty()) == Fit::no) return Fit::no;
  bool on_own_line = !form_.own_line || rest.find('\n') != rest.npos;
  rest = without_blanks(rest);
  bool separated = !form_.between.empty() && rest.starts_with(form_.between);
  if (separated)
    rest = without_blanks(rest.substr(form_.between.size()));
  else if (form_.between.starts_with(rest) && (form_.needs_between || !rest.empty()))
    return Fit::begun;
  else if (form_.needs_between && !form_.between.empty())
    return Fit::no;
  if (rest.starts_with(kFence)) return without_blanks(rest.substr(kFence.size())).empty() ? Fit::whole : Fit::no;
  if (!kFence.starts_with(rest)) return Fit::no;
  return rest.empty() && on_own_line ? Fit::whole : Fit::begun;
}

void NamedCall::step(char c) {
  if (step_ != ParseState::head) return step_object(c);
  std::string name;
  if (c == '{') {
    if (fit_of_head(name) != Fit::whole || fit_of_name(name, true) == Fit::no) return fail();
    name_ = std::move(name);
    step_ = ParseState::opened;
    return step_object(c);
  }
  head_ += c;
  if (head_.size() > kLongestHead || fit_of_head(name) == Fit::no) fail();
}

// The first key distinguishes JSON, which is streamed, from Python, which is converted when complete.
void NamedCall::step_object(char c) {
  object_ += c;
  if (step_ == ParseState::opened) {
    if (object_.size() == 1) return void(nesting_.push(c));
    if (is_blank(c)) return;
    step_ = c == '\'' ? ParseState::python : ParseState::json;
    if (step_ == ParseState::python) {
      nesting_ = Nesting("'\"");
      nesting_.push('{');
    } else {
      arguments_ = object_.substr(0, object_.size() - 1);
      begun_ = true;
    }
  }
  if (step_ == ParseState::json) arguments_ += c;
  if (!nesting_.push(c)) return;
  if (step_ == ParseState::python) {
    auto parsed = data::parse_python_literal(object_);
    if (!parsed || !parsed->is_object()) return fail();
    arguments_ = parsed->dump(-1, ' ', false, Json::error_handler_t::replace);
    begun_ = true;
  }
  finish();
}

}  // namespace hone::serve
