// IFEval: instructions that a program can verify, checked as lm-evaluation-harness's ifeval does.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "hone/eval/scores/metrics.h"

namespace hone::eval {

// Results of langdetect and nltk for a text.
struct TextAnalysis {
  std::string language;  // empty: none was detected
  int64_t sentences = 0, capital_words = 0;
};
using TextAnalyses = std::map<std::string, TextAnalysis>;  // by the text

// Whether the instructions of a document include one that needs a TextAnalysis.
bool needs_text_analysis(const Json& document);
// The answer as it is, then without its first line, its last line and asterisks: what the loose scores accept.
std::vector<std::string> accepted_forms(const std::string& answer);
// prompt_level_strict_acc, inst_level_strict_acc and the loose ones. `analyses` has all accepted forms where the document needs
// them. Throws UserError(bad_data) naming the document.
MetricItems score_instructions(const Json& document, const std::string& answer, const TextAnalyses& analyses);

}  // namespace hone::eval
