// Filters for HTML and URLs.
#include "hone/base/strings/percent.h"
#include "hone/text/jinja/builtins/filters.h"
#include "hone/text/jinja/builtins/natives.h"
#include "hone/text/jinja/builtins/text_operations.h"
#include "hone/text/jinja/unicode.h"

namespace hone::text::jinja {

namespace {

Value mark_safe(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound("safe", arguments, {});
  std::string text = interpreter.to_text(subject);
  interpreter.charge_bytes(text.size());
  return Value::markup(std::move(text));
}

template <bool force>
Value escape(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound("escape", arguments, {});
  if (!force && subject.is_markup()) return subject;
  std::string text = escape_html(interpreter.to_text(subject));
  interpreter.check_size(text.size());
  interpreter.charge_bytes(text.size());
  return Value::markup(std::move(text));
}

// Removes tags and comments and collapses white space.
std::string strip_tags(std::string_view text) {
  std::string bare;
  while (!text.empty()) {
    size_t open = text.find('<');
    bare += text.substr(0, open);
    if (open == std::string_view::npos) break;
    bool comment = text.substr(open, 4) == "<!--";
    size_t close = text.find(comment ? "-->" : ">", open);
    if (close == std::string_view::npos) {
      bare += text.substr(open);
      break;
    }
    text.remove_prefix(close + (comment ? 3 : 1));
  }
  std::string out;
  bool pending_space = false;
  for (size_t i = 0; i < bare.size();) {
    size_t begin = i;
    if (is_space(next_code_point(bare, i))) {
      pending_space = true;
      continue;
    }
    if (pending_space && !out.empty()) out += ' ';
    pending_space = false;
    out.append(bare, begin, i - begin);
  }
  return out;
}

Value striptags(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound("filter", arguments, {});
  return like_origin(subject, interpreter.string(strip_tags(interpreter.to_text(subject))));
}

Value urlencode(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound("urlencode", arguments, {});
  bool pairs = subject.is(Kind::dict) || subject.is(Kind::list);
  if (!pairs) return interpreter.string(percent_encoded(interpreter.to_text(subject), "/"));
  std::string out;
  auto append = [&](const Value& key, const Value& value) {
    auto quote = [&](const Value& part) {
      std::string text = percent_encoded(interpreter.to_text(part));
      return replace_text(interpreter, text, "%20", "+", -1);
    };
    out += (out.empty() ? "" : "&") + quote(key) + "=" + quote(value);
  };
  if (subject.is(Kind::dict)) {
    for (const auto& [key, value] : subject.as_dict().items) append(key, value);
  } else {
    for (const Value& item : subject.as_list().items) {
      std::vector<Value> pair = interpreter.to_vector(item);
      if (pair.size() != 2) throw TemplateFailure("urlencode needs pairs");
      append(pair[0], pair[1]);
    }
  }
  return interpreter.string(std::move(out));
}

constexpr FilterEntry kMarkupFilters[] = {
    {"safe", mark_safe},           {"escape", escape<false>}, {"e", escape<false>},
    {"forceescape", escape<true>}, {"striptags", striptags},  {"urlencode", urlencode},
};

}  // namespace

Filter find_markup_filter(std::string_view name) {
  for (const FilterEntry& entry : kMarkupFilters)
    if (entry.name == name) return entry.filter;
  return nullptr;
}

}  // namespace hone::text::jinja
