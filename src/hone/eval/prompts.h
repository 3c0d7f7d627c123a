// From a document to a prompt: description, examples, question, as lm-evaluation-harness writes them.
#pragma once
#include <string>
#include <vector>

#include "hone/data/datasets/python_random.h"
#include "hone/eval/task.h"

namespace hone::eval {

struct PromptMessage {
  std::string role, content, delimiter;  // the delimiter follows it in plain text, and in no chat
};
using Prompt = std::vector<PromptMessage>;

std::string plain_text(const Prompt& prompt);
// Examples and question in one user message, where the prompt is not to be many turns.
Prompt as_single_turn(Prompt prompt);

// Draws examples in the order of the documents, so that they are those of lm-evaluation-harness with the same seed.
class Prompter {
 public:
  // `examples` may be empty where the task takes none.
  Prompter(const Task& task, std::vector<Json> examples, uint64_t seed);
  Prompt prompt(const Json& document);

 private:
  std::vector<Json> draw_examples(const Json& document);

  const Task& task_;
  std::vector<Json> examples_;
  data::PythonRandom random_;
};

}  // namespace hone::eval
