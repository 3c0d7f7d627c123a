// Scores of single documents and their aggregation: by lm-evaluation-harness's names and formulas.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hone/eval/tasks/task.h"

namespace hone::eval {

// Log-likelihood of one continuation: the sum over its tokens, and whether each was the most likely one.
struct Likelihood {
  double logprob = 0;
  bool is_greedy = false;
};

// One document's contribution to a metric: a weighted score, or the data that a corpus-level metric needs.
struct MetricItem {
  double value = 0, weight = 1;
  int64_t gold = 0, predicted = 0;
  std::vector<double> probabilities;
};
using MetricItems = std::map<std::string, MetricItem>;  // by the metric's name

std::vector<std::string> default_metrics(OutputType type);
// Fills in defaults. Throws UserError(bad_data) for a metric or aggregation that is unknown for this kind of task.
void check_metric(MetricConfig& metric, OutputType type, const std::string& where);

// Whether the document's answer, or each of several, is one of its choices.
bool has_answer_among_choices(const Task& task, const Json& document, const std::vector<std::string>& choices);
MetricItems score_choices(const Task& task, const Json& document, const std::vector<Likelihood>& conditional,
                          const std::vector<Likelihood>& unconditional);
MetricItems score_loglikelihood(const Task& task, const Likelihood& likelihood);
MetricItems score_rolling(const Task& task, const Json& document, double logprob);
MetricItems score_answer(const Task& task, const Json& document, const Json& answer);

double aggregate(const MetricConfig& metric, const std::vector<MetricItem>& items);
// For means only; lm-evaluation-harness bootstraps the others.
std::optional<double> standard_error(const MetricConfig& metric, const std::vector<MetricItem>& items);

}  // namespace hone::eval
