#include "hone/eval/tasks/prompts.h"

#include <algorithm>

#include "hone/text/jinja/unicode.h"

namespace hone::eval {
namespace {

bool ends_in_space(const std::string& text) {
  return text::jinja::strip_space(text, text::jinja::Side::right).size() != text.size();
}
bool starts_with_space(const std::string& text) {
  return text::jinja::strip_space(text, text::jinja::Side::left).size() != text.size();
}

// With the delimiter in between, unless there is white space already.
std::string joined(const std::string& before, const std::string& after, const std::string& delimiter) {
  if (before.empty() || after.empty()) return before + after;
  return ends_in_space(before) || starts_with_space(after) ? before + after : before + delimiter + after;
}

// The text of an answer, which may be the index of a choice or the first of several.
std::string answer_text(const Task& task, const FewshotConfig& fewshot, const Json& document) {
  auto answer = fewshot.target.target(document, fewshot.choices.is_set());
  if (fewshot.choices.is_set() && answer.is_number_integer()) {
    auto choices = fewshot.choices.choices(document);
    auto index = answer.get<int64_t>();
    if (index < 0) index += static_cast<int64_t>(choices.size());
    if (index >= 0 && index < static_cast<int64_t>(choices.size())) return choices[static_cast<size_t>(index)];
  }
  if (answer.is_array() && !answer.empty()) answer = answer[0];
  if (!answer.is_string())
    throw UserError(ExitCode::bad_data, fmt::format("{}: the answer {} of an example is not text", task.name, answer.dump()));
  return answer.get<std::string>();
}

void add_turn(Prompt& prompt, const std::string& question, const std::string& answer, const std::string& prefix,
              const std::string& target_delimiter, const std::string& fewshot_delimiter) {
  bool delimited = prefix.empty() ? !answer.empty() : !question.empty() && !ends_in_space(question) && !starts_with_space(prefix);
  prompt.push_back({"user", question, delimited ? target_delimiter : ""});
  if (!answer.empty())
    prompt.push_back({"assistant", joined(prefix, answer, " "), fewshot_delimiter});
  else if (!prefix.empty())
    prompt.push_back({"assistant", prefix, ""});
}

}  // namespace

std::string plain_text(const Prompt& prompt) {
  std::string text;
  for (const auto& message : prompt) text += message.content + message.delimiter;
  return text;
}

Prompt as_single_turn(Prompt prompt) {
  Prompt result;
  if (!prompt.empty() && prompt.front().role == "system") {
    result.push_back(prompt.front());
    prompt.erase(prompt.begin());
  }
  bool open = !prompt.empty() && prompt.back().role == "assistant";
  PromptMessage last = open ? prompt.back() : PromptMessage();
  if (open) prompt.pop_back();
  if (!prompt.empty()) prompt.back().delimiter.clear();
  result.push_back({"user", plain_text(prompt), ""});
  if (open) result.push_back(last);
  return result;
}

Prompter::Prompter(const Task& task, std::vector<Json> examples, uint64_t seed)
    : task_(task), examples_(std::move(examples)), random_(seed) {
  if (task.fewshot.indices.empty()) return;
  std::vector<Json> chosen;
  for (auto index : task.fewshot.indices) {
    if (index >= examples_.size())
      throw UserError(ExitCode::bad_data,
                      fmt::format("{}: fewshot_indices names example {} of {}", task.name, index, examples_.size()));
    chosen.push_back(examples_[index]);
  }
  examples_ = std::move(chosen);
}

std::vector<Json> Prompter::draw_examples(const Json& document) {
  auto count = static_cast<size_t>(task_.num_fewshot);
  if (count == 0) return {};
  bool own_split = task_.fewshot.split == task_.test_split;  // the document itself is not an example
  auto others = [&](std::vector<Json> pool) {
    if (own_split) std::erase(pool, document);
    return pool;
  };
  auto too_few = [&](size_t found) {
    return UserError(ExitCode::bad_data, fmt::format("{}: {} examples are requested, {} are available", task_.name, count, found),
                     "lower num_fewshot (`n_shot`)");
  };
  std::vector<Json> drawn;
  if (task_.fewshot.sampler == "first_n") {
    for (auto example = examples_.begin(); example != examples_.end() && drawn.size() < count; ++example)
      if (!own_split || *example != document) drawn.push_back(*example);
  } else {
    auto wanted = count + (own_split ? 1 : 0);
    if (wanted > examples_.size()) throw too_few(examples_.size());
    for (auto index : random_.sample(examples_.size(), wanted)) drawn.push_back(examples_[index]);
    drawn = others(std::move(drawn));
    if (drawn.size() < count) {  // the document occurs more than once
      auto pool = others(examples_);
      if (pool.size() < count) throw too_few(pool.size());
      drawn.clear();
      for (auto index : random_.sample(pool.size(), count)) drawn.push_back(pool[index]);
    }
  }
  if (drawn.size() < count) throw too_few(drawn.size());
  drawn.resize(count);
  return drawn;
}

std::vector<Prompt> Prompter::prompts(const Json& document) {
  Prompt prompt;
  auto text_or_nothing = [&](const Field& field, const Json& of) { return field.is_set() ? field.text(of) : std::string(); };
  if (auto description = text_or_nothing(task_.description, document); !description.empty())
    prompt.push_back({"system", description, ""});
  for (const auto& example : draw_examples(document)) {
    const auto right = task_.right_input(example);
    add_turn(prompt, right ? task_.choices.choices(example)[*right] : task_.fewshot.text.text(example),
             right ? task_.target.text(example) : answer_text(task_, task_.fewshot, example),
             text_or_nothing(task_.fewshot.gen_prefix, example), task_.fewshot.target_delimiter, task_.fewshot.fewshot_delimiter);
  }
  const bool has_inputs = task_.right_input(document).has_value();
  std::vector<Prompt> prompts;
  for (const auto& question : has_inputs ? task_.choices.choices(document)
                                         : std::vector<std::string>{task_.text.is_set() ? task_.text.text(document) : ""}) {
    prompts.push_back(prompt);
    add_turn(prompts.back(), question, "", text_or_nothing(task_.gen_prefix, document), has_inputs ? "" : task_.target_delimiter,
             "");
  }
  return prompts;
}

}  // namespace hone::eval
