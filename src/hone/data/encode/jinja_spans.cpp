// Where a rendered conversation shows its answers: what is learnt.
#include <algorithm>

#include "hone/base/trimmed.h"
#include "hone/data/encode/jinja.h"

namespace hone::data {
namespace {

using text::FormatError;

// Long conversations have marks at the ends of their answers while a template runs.
constexpr std::string_view kAnswer = "\uFDD2", kAnswerEnd = "\uFDD3";

// Inside the blanks around it, which templates trim.
std::string marked_ends(const std::string& text) {
  auto inner = trimmed(text);
  auto at = text.find(inner);
  return text.substr(0, at) + std::string(kAnswer) + inner + std::string(kAnswerEnd) + text.substr(at + inner.size());
}

// The text, and where the marks stood in it, in pairs; none where they are not all there.
std::pair<std::string, std::vector<std::pair<size_t, size_t>>> without_marks(const std::string& marked) {
  std::string text;
  std::vector<std::pair<size_t, size_t>> ends;
  for (size_t at = 0;;) {
    auto open = marked.find(kAnswer, at);
    if (open == marked.npos) return {text + marked.substr(at), ends};
    text.append(marked, at, open - at);
    auto close = marked.find(kAnswerEnd, open);
    if (close == marked.npos) return {};
    ends.emplace_back(text.size(), 0);
    text.append(marked, open + kAnswer.size(), close - open - kAnswer.size());
    ends.back().second = text.size();
    at = close + kAnswerEnd.size();
  }
}

size_t common_prefix(const std::string& a, const std::string& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

size_t common_suffix(const std::string& a, const std::string& b) {
  return static_cast<size_t>(std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first - a.rbegin());
}

}  // namespace

std::optional<JinjaEncoder::Span> JinjaEncoder::span_by_prefix(const Prepared& prepared, const std::string& whole,
                                                               size_t message) const {
  Json before = Json::array(), upto;
  for (size_t i = 0; i < message; ++i) before.push_back(prepared.messages[i]);
  upto = before;
  upto.push_back(prepared.messages[message]);
  auto with_answer = message + 1 == prepared.messages.size() ? whole : render(prepared, upto, false).text;
  auto open = render(prepared, before, true).text;
  // A template may open a thought in its generation prompt that a finished answer does not show.
  if (!with_answer.starts_with(open)) open = render(prepared, before, false).text;
  if (!with_answer.starts_with(open) || !whole.starts_with(with_answer)) return std::nullopt;
  return Span{open.size(), with_answer.size(), message};
}

// Where the text changes when the answer does; `ending` is what closes the last answer and closes this one too when it stands
// there.
std::optional<JinjaEncoder::Span> JinjaEncoder::span_by_difference(const Prepared& prepared, const std::string& whole,
                                                                   size_t message, const std::string& ending) const {
  auto changed = prepared.messages;
  changed[message]["content"] = "\x01";
  changed[message].erase("tool_calls");
  auto other = render(prepared, changed, false).text;
  size_t begin = common_prefix(whole, other);
  size_t shared_end = std::min(common_suffix(whole, other), std::min(whole.size(), other.size()) - begin);
  size_t end = whole.size() - shared_end;
  if (end <= begin) return std::nullopt;
  if (whole.compare(end, ending.size(), ending) == 0) end += ending.size();
  return Span{begin, end, message};
}

// Of long conversations. Rendering all that stands before each answer would cost the square of their number: instead the template
// runs once with marks at the ends of all answers, and where some that are found one by one are at the same distances from their
// marks, and between the same texts, the others do too. Empty: this template, or this conversation, does not work like that.
std::vector<JinjaEncoder::Span> JinjaEncoder::spans_alike(const Prepared& prepared, const std::string& whole,
                                                          const std::vector<size_t>& answers,
                                                          const std::function<Span(size_t message)>& exact) const {
  if (answers.size() < kManyAnswers || whole.find(kAnswer) != whole.npos || whole.find(kAnswerEnd) != whole.npos) return {};
  auto marked = prepared.messages;
  for (size_t message : answers) {
    auto& content = marked[message]["content"];
    if (!content.is_string() || trimmed(content.get_ref<const std::string&>()).empty()) return {};
    content = marked_ends(content.get<std::string>());
  }
  auto [text, ends] = without_marks(render(prepared, marked, false).text);
  if (text != whole || ends.size() != answers.size()) return {};
  const auto first = exact(answers[0]);
  if (first.begin > ends[0].first || first.end < ends[0].second) return {};
  const size_t lead = ends[0].first - first.begin, tail = first.end - ends[0].second;
  const auto opening = whole.substr(first.begin, lead), closing = whole.substr(ends[0].second, tail);
  std::vector<Span> spans;
  for (size_t i = 0; i + 1 < answers.size(); ++i) {
    auto [begin, end] = ends[i];
    if (begin < lead || whole.compare(begin - lead, lead, opening) != 0 || whole.compare(end, tail, closing) != 0) return {};
    spans.push_back({begin - lead, end + tail, answers[i]});
  }
  for (size_t i : {size_t{1}, answers.size() / 2, answers.size() - 2}) {
    auto alone = exact(answers[i]);
    if (alone.begin != spans[i].begin || alone.end != spans[i].end) return {};
  }
  spans.push_back(exact(answers.back()));  // templates treat the last one differently
  return spans;
}

std::vector<JinjaEncoder::Span> JinjaEncoder::response_spans(const Prepared& prepared, const text::Rendered& whole) const {
  std::vector<size_t> answers;
  for (size_t i = 0; i < prepared.messages.size(); ++i)
    if (prepared.messages[i]["role"] == "assistant") answers.push_back(i);
  std::vector<Span> spans;
  if (!whole.generation_spans.empty()) {
    bool one_each = whole.generation_spans.size() == answers.size();
    for (size_t i = 0; i < whole.generation_spans.size(); ++i)
      spans.push_back({whole.generation_spans[i].begin, whole.generation_spans[i].end, one_each ? answers[i] : answers.back()});
    return spans;
  }
  std::string ending;
  if (!answers.empty() && answers.back() + 1 == prepared.messages.size())
    if (auto last = span_by_difference(prepared, whole.text, answers.back(), "")) ending = whole.text.substr(last->end);
  auto exact = [&](size_t message) {
    auto span = span_by_prefix(prepared, whole.text, message);
    if (!span) span = span_by_difference(prepared, whole.text, message, ending);
    if (!span) throw FormatError("the model's chat template does not render assistant message " + std::to_string(message));
    return *span;
  };
  if (auto alike = spans_alike(prepared, whole.text, answers, exact); !alike.empty()) return alike;
  for (size_t message : answers) spans.push_back(exact(message));
  return spans;
}

}  // namespace hone::data
