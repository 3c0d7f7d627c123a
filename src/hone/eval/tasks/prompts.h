// From a document to a prompt: description, examples, question, as in lm-evaluation-harness.
#pragma once
#include <string>
#include <vector>

#include "hone/data/datasets/python_random.h"
#include "hone/eval/tasks/task.h"

namespace hone::eval {

struct PromptMessage {
  std::string role, content, delimiter;  // the delimiter follows it in plain text, and in no chat
  bool operator==(const PromptMessage&) const = default;
};
using Prompt = std::vector<PromptMessage>;

std::string plain_text(const Prompt& prompt);
// Puts examples and question into one user message, unless the prompt is multi-turn.
Prompt as_single_turn(Prompt prompt);

// Draws examples in document order, so that they equal those of lm-evaluation-harness with the same seed.
class Prompter {
 public:
  // `examples` may be empty if the task uses none.
  Prompter(const Task& task, std::vector<Json> examples, uint64_t seed);
  std::vector<Prompt> prompts(const Json& document);  // one; or one for each choice, where these are inputs (Task::right_input)

 private:
  std::vector<Json> draw_examples(const Json& document);

  const Task& task_;
  std::vector<Json> examples_;
  data::PythonRandom random_;
};

}  // namespace hone::eval
