// Languages, sentences and words in capitals, as found by the Python packages langdetect and nltk in a worker process.
#pragma once
#include <memory>
#include <set>
#include <string>

#include "hone/eval/scores/instructions.h"

namespace hone::eval {

class LanguageTools {
 public:
  // `python` is the interpreter. Throws UserError(usage) if it lacks a package or nltk's data.
  explicit LanguageTools(const std::string& python);
  ~LanguageTools();
  // Throws UserError(failure) if the worker fails.
  TextAnalyses analyze(const std::set<std::string>& texts);

 private:
  struct Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace hone::eval
