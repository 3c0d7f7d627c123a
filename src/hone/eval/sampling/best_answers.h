// Selects the best of several completions by outcome and process rewards, as in ms-swift.
#pragma once
#include <optional>
#include <vector>

namespace hone::eval {

struct SelectionConfig {
  int64_t num_return_sequences = 64, n_best_to_keep = 5;
  double prm_threshold = 0;
  std::optional<double> easy_query_threshold;  // rows that this share of answers gets right are left out
};

struct Selection {
  std::vector<size_t> best;  // the best first, without the worst unless it is the only one
  size_t worst = 0;
};

// Scores of the completions, and of the row's own response last if it has one (`has_reference`); an empty list means that this
// reward was not used. Nothing if no completion is good enough, or the prompt is too easy.
std::optional<Selection> select_answers(const std::vector<double>& outcome, const std::vector<double>& process, size_t answers,
                                        bool has_reference, const SelectionConfig& config);

}  // namespace hone::eval
