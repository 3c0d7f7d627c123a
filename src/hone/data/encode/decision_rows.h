// ms-swift's decision data: a state and questions about it, each with options of which one is correct, or a distribution over
// them. A record becomes one row per question; its fields, questions and options may be changed at random.
#pragma once
#include <array>
#include <memory>
#include <string_view>

#include "hone/data/readers/row_reader.h"
#include "hone/data/sample.h"

namespace hone::data {

// ms-swift's decision_* options. Random draws are consecutive over the records of a dataset.
struct DecisionChanges {
  double drop_instructions = 0;   // share of questions whose text is left out
  int64_t subsample_options = 0;  // most options of a choice, the right one among them; 0: all
  double state_as_text = 0;       // share of records whose state, an object, is written as lines of text
  bool shuffle_fields = false;    // of the state, and the questions

  bool any() const { return drop_instructions > 0 || subsample_options > 0 || state_as_text > 0 || shuffle_fields; }
};

inline constexpr std::array<std::string_view, 3> kQuestionKinds{"noul", "choice", "score"};  // ms-swift's words

// Rows {"messages", "questions", "kinds", "options", "target_probs"}, as from ms-swift's preprocessor. Invalid records are errors
// among them.
std::unique_ptr<RowReader> open_decisions(const RowReader& records, const DecisionChanges& changes, uint64_t seed);

// The text that the model reads for such a row, up to the decision.
std::string decision_prompt(std::string_view kind, const std::string& state, const std::string& question,
                            const std::vector<std::string>& options);

}  // namespace hone::data
