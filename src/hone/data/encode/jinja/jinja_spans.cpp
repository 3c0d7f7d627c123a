// Finds the responses in a rendered conversation, which are the spans to learn.
#include <algorithm>

#include "hone/base/strings/trimmed.h"
#include "hone/data/encode/jinja/jinja.h"

namespace hone::data {
namespace {

using text::FormatError;

// In long conversations the ends of user and tool contents are marked while a template runs.
constexpr std::string_view kNeighbor = "\uFDD2", kNeighborEnd = "\uFDD3";

// Markers go inside surrounding white space, which templates trim.
std::string marked_ends(const std::string& text) {
  auto inner = trimmed(text);
  auto at = text.find(inner);
  return text.substr(0, at) + std::string(kNeighbor) + inner + std::string(kNeighborEnd) + text.substr(at + inner.size());
}

// The text and the positions of its markers, in pairs; none unless all are found.
std::pair<std::string, std::vector<std::pair<size_t, size_t>>> strip_end_marks(const std::string& marked) {
  std::string text;
  std::vector<std::pair<size_t, size_t>> ends;
  for (size_t at = 0;;) {
    auto open = marked.find(kNeighbor, at);
    if (open == marked.npos) return {text + marked.substr(at), ends};
    text.append(marked, at, open - at);
    auto close = marked.find(kNeighborEnd, open);
    if (close == marked.npos) return {};
    ends.emplace_back(text.size(), 0);
    text.append(marked, open + kNeighbor.size(), close - open - kNeighbor.size());
    ends.back().second = text.size();
    at = close + kNeighborEnd.size();
  }
}

bool can_be_marked(const Json& message) {
  const auto& content = message["content"];
  return (message["role"] == "user" || message["role"] == "tool") && content.is_string() &&
         !trimmed(content.get_ref<const std::string&>()).empty();
}

// Templates render responses of one kind alike: the kind is determined by their content and the neighboring roles.
std::string assistant_kind(const Json& messages, size_t assistant) {
  const auto& message = messages[assistant];
  const auto& content = message["content"];
  std::string text = content.is_string() ? content.get<std::string>() : "";
  return fmt::format("{} {} {}{}{}{}", messages[assistant - 1]["role"].get_ref<const std::string&>(),
                     messages[assistant + 1]["role"].get_ref<const std::string&>(), text.empty(), message.contains("tool_calls"),
                     message.contains("reasoning_content"), text.find("</think>") != text.npos);
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
  auto with_message = message + 1 == prepared.messages.size() ? whole : render(prepared, upto, false).text;
  auto open = render(prepared, before, true).text;
  // A template may open a think block in its generation prompt that a finished response does not contain.
  if (!with_message.starts_with(open)) open = render(prepared, before, false).text;
  if (!with_message.starts_with(open) || !whole.starts_with(with_message)) return std::nullopt;
  return Span{open.size(), with_message.size(), message};
}

// The span that changes when the response changes; `ending` closes the last response and belongs to this one too if it
// follows.
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

// Spans of user and tool contents in the rendered text, found by markers at their ends. Empty if the template does not render all
// of them or if markers change its output.
JinjaEncoder::ContentRanges JinjaEncoder::content_ranges(const Prepared& prepared, const std::string& whole) const {
  if (whole.find(kNeighbor) != whole.npos || whole.find(kNeighborEnd) != whole.npos) return {};
  auto marked = prepared.messages;
  std::vector<size_t> which;
  for (size_t i = 0; i < marked.size(); ++i) {
    if (!can_be_marked(marked[i])) continue;
    marked[i]["content"] = marked_ends(marked[i]["content"].get<std::string>());
    which.push_back(i);
  }
  auto [text, ends] = strip_end_marks(render(prepared, marked, false).text);
  if (text != whole || ends.size() != which.size()) return {};
  ContentRanges contents;
  for (size_t i = 0; i < which.size(); ++i) contents.emplace(which[i], ends[i]);
  return contents;
}

// Some responses of each kind are located exactly. Where the text between them and their neighbors is the same, the others are
// derived; the rest are located exactly too.
void JinjaEncoder::append_alike(const std::vector<size_t>& assistants, const ContentRanges& contents, const std::string& whole,
                                const std::function<Span(size_t message)>& exact, std::vector<Span>& spans) const {
  auto one_by_one = [&] {
    for (size_t message : assistants) spans.push_back(exact(message));
  };
  if (assistants.size() < kManyAssistants) return one_by_one();
  auto before = [&](size_t message) { return contents.at(message - 1).second; };
  auto after = [&](size_t message) { return contents.at(message + 1).first; };
  const auto first = exact(assistants[0]);
  if (first.begin < before(assistants[0]) || first.end > after(assistants[0])) return one_by_one();
  const auto opening = whole.substr(before(assistants[0]), first.begin - before(assistants[0])),
             closing = whole.substr(first.end, after(assistants[0]) - first.end);
  std::vector<Span> found;
  for (size_t message : assistants) {
    auto from = before(message), to = after(message);
    if (to < from + opening.size() + closing.size() || whole.compare(from, opening.size(), opening) != 0 ||
        whole.compare(to - closing.size(), closing.size(), closing) != 0)
      return one_by_one();
    found.push_back({from + opening.size(), to - closing.size(), message});
  }
  for (size_t i : {size_t{1}, assistants.size() / 2, assistants.size() - 1}) {
    auto alone = exact(assistants[i]);
    if (alone.begin != found[i].begin || alone.end != found[i].end) return one_by_one();
  }
  spans.insert(spans.end(), found.begin(), found.end());
}

// Rendering the prefix of every response would take quadratic time. For long conversations the template therefore runs once more
// with markers, which locate the neighbors of a response.
std::vector<JinjaEncoder::Span> JinjaEncoder::spans_of(const Prepared& prepared, const std::string& whole,
                                                       const std::vector<size_t>& assistants,
                                                       const std::function<Span(size_t message)>& exact) const {
  std::vector<Span> spans;
  ContentRanges contents;
  if (assistants.size() >= kManyAssistants) contents = content_ranges(prepared, whole);
  std::map<std::string, std::vector<size_t>> kinds;
  for (size_t message : assistants)
    if (message > 0 && contents.contains(message - 1) && contents.contains(message + 1))
      kinds[assistant_kind(prepared.messages, message)].push_back(message);
    else
      spans.push_back(exact(message));
  for (const auto& [kind, alike] : kinds) append_alike(alike, contents, whole, exact, spans);
  std::ranges::sort(spans, {}, &Span::begin);
  return spans;
}

std::vector<JinjaEncoder::Span> JinjaEncoder::response_spans(const Prepared& prepared, const text::Rendered& whole) const {
  std::vector<size_t> assistants;
  for (size_t i = 0; i < prepared.messages.size(); ++i)
    if (prepared.messages[i]["role"] == "assistant") assistants.push_back(i);
  std::vector<Span> spans;
  if (!whole.generation_spans.empty()) {
    bool one_each = whole.generation_spans.size() == assistants.size();
    for (size_t i = 0; i < whole.generation_spans.size(); ++i)
      spans.push_back(
          {whole.generation_spans[i].begin, whole.generation_spans[i].end, one_each ? assistants[i] : assistants.back()});
    return spans;
  }
  std::string ending;
  if (!assistants.empty() && assistants.back() + 1 == prepared.messages.size())
    if (auto last = span_by_difference(prepared, whole.text, assistants.back(), "")) ending = whole.text.substr(last->end);
  auto exact = [&](size_t message) {
    auto span = span_by_prefix(prepared, whole.text, message);
    if (!span) span = span_by_difference(prepared, whole.text, message, ending);
    if (!span) throw FormatError("the model's chat template does not render assistant message " + std::to_string(message));
    return *span;
  };
  return spans_of(prepared, whole.text, assistants, exact);
}

}  // namespace hone::data
