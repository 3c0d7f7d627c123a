#include "hone/text/tokenizer/pre_tokenizers/spans.h"

#include <algorithm>

#include "hone/text/tokenizer/unicode/unicode.h"

namespace hone::text::tokenizer {

Spans arrange(const Spans& spans, Behavior behavior) {
  Spans out;
  out.reserve(spans.size());
  bool previous = false;
  auto keep = [&](const Span& span, bool join) {
    if (join && !out.empty())
      out.back() = {std::min(out.back().begin, span.begin), std::max(out.back().end, span.end), false};
    else
      out.push_back({span.begin, span.end, false});
    previous = span.matched;
  };
  switch (behavior) {
    case Behavior::removed:
      return spans;
    case Behavior::isolated:
      for (auto& span : spans) keep(span, false);
      break;
    case Behavior::contiguous:
      for (auto& span : spans) keep(span, span.matched == previous);
      break;
    case Behavior::merged_with_previous:
      for (auto& span : spans) keep(span, span.matched && !previous);
      break;
    case Behavior::merged_with_next:
      for (auto span = spans.rbegin(); span != spans.rend(); ++span) keep(*span, span->matched && !previous);
      std::reverse(out.begin(), out.end());
      break;
  }
  return out;
}

Spans spans_of(Splitter splitter, std::string_view text) {
  Spans spans;
  const char *begin = text.data(), *end = begin + text.size();
  for (const char* at = begin; at < end;) {
    const char* next = splitter(at, end);
    spans.push_back({static_cast<size_t>(at - begin), static_cast<size_t>(next - begin), true});
    at = next;
  }
  return spans;
}

Spans word_and_symbol_runs(std::string_view text) {
  Spans spans;
  int previous = -1;
  for_each_char(text, [&](uint32_t c, size_t at, size_t length) {
    int kind = is_word(c) ? 1 : is_white_space(c) ? 0 : 2;
    if (kind == previous)
      spans.back().end = at + length;
    else
      spans.push_back({at, at + length, kind == 0});
    previous = kind;
  });
  return spans;
}

Spans script_runs(std::string_view text) {
  Spans spans;
  int previous = -1;  // before the first character
  for_each_char(text, [&](uint32_t c, size_t at, size_t length) {
    int script = script_of(c);
    bool starts = script != 0 && previous != 0 && script != previous;
    if (starts)
      spans.push_back({at, at + length, false});
    else if (!spans.empty())
      spans.back().end = at + length;
    if (script != 0) previous = script;
  });
  return spans;
}

Spans fixed_runs(std::string_view text, size_t chars) {
  Spans spans;
  size_t count = 0;
  for_each_char(text, [&](uint32_t, size_t at, size_t length) {
    if (count++ % chars == 0) spans.push_back({at, at, false});
    spans.back().end = at + length;
  });
  return spans;
}

}  // namespace hone::text::tokenizer
