// Changes that a few of ms-swift's templates make to a conversation before rendering, and to its segments after it.
#include <algorithm>

#include "hone/base/strings/replace_all.h"
#include "hone/base/strings/trimmed.h"
#include "hone/data/encode/swift.h"

namespace hone::data {
namespace {

constexpr std::string_view kOpen = "<think>", kClose = "</think>";

std::string without_outer_newlines(const std::string& text) {
  auto begin = text.find_first_not_of('\n');
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of('\n') - begin + 1);
}

std::string joined_text(const std::vector<ResponsePart>& response) {
  std::string text;
  for (const auto& part : response) text += part.text;
  return text;
}

void fold_system_into_question(Turns& turns) {
  if (turns.system) turns.turns[0].text = *turns.system + "\n\n" + turns.turns[0].text;
  turns.system.reset();
  for (auto& turn : turns.turns)
    if (turn.response.size() == 1) turn.response[0].text = without_outer_newlines(turn.response[0].text);
}

// An embedding is read after the end of the text, so a text without a response is closed too.
void close_text(Turns& turns) {
  if (turns.system) turns.turns[0].text = *turns.system + " " + turns.turns[0].text;
  turns.system.reset();
  if (turns.turns.size() % 2 == 1) turns.turns.push_back({.role = Turn::Role::assistant, .response = {{}}});
}

void ask_for_relevance(Turns& turns) {
  if (turns.turns.size() < 2) throw text::FormatError("a reranker's row holds a question and a candidate");
  const auto task = turns.system.value_or("Given a web search query, retrieve relevant passages that answer the query");
  turns.turns[0].text =
      "<Instruct>: " + task + "\n<Query>: " + turns.turns[0].text + "\n<Document>: " + joined_text(turns.turns[1].response);
  turns.turns.resize(1);
  turns.system.reset();
}

// Seed-OSS is given its thinking budget, in steps.
int64_t rounded_budget(int64_t tokens) {
  for (int64_t step : {0, 512, 1024, 2048, 4096, 8192, 16384})
    if (tokens <= step) return step;
  return tokens;
}

int64_t reflection_interval(int64_t budget) { return budget > 4096 ? 1024 : budget > 1024 ? 512 : budget / 4; }

std::string budget_rules(int64_t budget) {
  if (budget == 0)
    return "You are an intelligent assistant that can answer questions in one step without the need for reasoning and thinking, "
           "that is, your thinking "
           "budget is 0. Next, please skip the thinking process and directly start answering the user's questions.\n";
  return fmt::format(
      "You are an intelligent assistant with reflective ability. In the process of thinking and reasoning, you need to strictly "
      "follow the thinking budget, "
      "which is {0}. That is, you need to complete your thinking within {0} tokens and start answering the user's questions. You "
      "will reflect on your thinking "
      "process every {1} tokens, stating how many tokens have been used and how many are left.\n",
      budget, reflection_interval(budget));
}

bool has_reasoning(const std::string& text) { return text.find(kOpen) != text.npos && text.find(kClose) != text.npos; }

std::string in_seed_tags(std::string text, int64_t budget) {
  if (has_reasoning(text)) {
    const auto open = text.find(kOpen), close = text.find(kClose, open + kOpen.size());
    if (close == text.npos) throw text::FormatError("reasoning is closed before it is opened");
    return text.substr(0, open) + "<seed:think>" + text.substr(open + kOpen.size(), close - open - kOpen.size()) +
           "</seed:think>" + text.substr(close + kClose.size());
  }
  for (auto tag : {kOpen, kClose}) text = replace_all(std::move(text), tag, "");
  return (budget > 0 ? "<seed:think></seed:think>"
                     : "<seed:think><seed:cot_budget_reflect>The current thinking budget is 0, so I will directly start "
                       "answering the question."
                       "</seed:cot_budget_reflect>\n</seed:think>") +
         text;
}

}  // namespace

int64_t SwiftEncoder::thinking_budget(const Turns& turns) const {
  int64_t longest = 0;
  for (const auto& turn : turns.turns) {
    const auto text = joined_text(turn.response);
    if (!has_reasoning(text)) continue;
    const auto begin = text.find(kOpen) + kOpen.size(), end = text.find(kClose, begin);
    if (end == text.npos) continue;
    const auto thoughts = text.substr(begin, end - begin);
    if (!trimmed(thoughts).empty())
      longest = std::max(longest, static_cast<int64_t>(tokenizer_->encode(thoughts, {.add_special_tokens = true}).size()));
  }
  return rounded_budget(longest);
}

void SwiftEncoder::write_seed_reasoning(Turns& turns) const {
  const auto budget = thinking_budget(turns);
  turns.system = turns.system && !turns.system->empty() ? *turns.system + "<seed:eos><seed:bos>system\n" + budget_rules(budget)
                                                        : budget_rules(budget);
  for (auto& turn : turns.turns) {
    if (turn.response.empty()) continue;
    bool anywhere = std::ranges::any_of(turn.response, [](const ResponsePart& part) { return has_reasoning(part.text); });
    for (size_t i = 0; i < turn.response.size(); ++i)
      if (auto& text = turn.response[i].text; anywhere ? has_reasoning(text) : i == 0) text = in_seed_tags(text, budget);
  }
  turns.response_prefix = "<seed:think><seed:cot_budget_reflect>";  // as in ms-swift, regardless of earlier responses
}

void SwiftEncoder::rearrange(Turns& turns) const {
  using Quirk = text::SwiftTemplate::Quirk;
  switch (template_.quirk) {
    case Quirk::gemma_system:
      return fold_system_into_question(turns);
    case Quirk::embedded_text:
      return close_text(turns);
    case Quirk::question_and_candidate:
      return ask_for_relevance(turns);
    case Quirk::seed_budget:
      return write_seed_reasoning(turns);
    default:
      return;
  }
}

void SwiftEncoder::strip_glm_newlines(Segments& segments) const {
  for (size_t i = 0; i < segments.size(); ++i) {
    auto& segment = segments[i];
    bool opens = segment.is_text && (segment.text.ends_with("<|assistant|>\n") || segment.text.ends_with("<think></think>\n"));
    bool call_follows = i + 1 >= segments.size() || segments[i + 1].text.find("<|observation|>") != std::string::npos;
    if (opens && call_follows) segment.text.pop_back();
  }
}

}  // namespace hone::data
