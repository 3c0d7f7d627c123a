// The best of several answers by outcome and process rewards, as ms-swift chooses them.
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
  std::vector<size_t> best;  // the best first
  size_t worst = 0;
};

// Scores of the answers, and of the row's own answer last where it has one (`has_reference`); an empty list means a judge
// that was not used. Nothing if no answer is good enough, or the question is too easy.
std::optional<Selection> select_answers(const std::vector<double>& outcome, const std::vector<double>& process, size_t answers,
                                        bool has_reference, const SelectionConfig& config);

}  // namespace hone::eval
