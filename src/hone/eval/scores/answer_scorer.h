// Scores generated answers. Most metrics compare texts; pass@k runs programs in a sandbox, and IFEval needs language tools.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hone/eval/scores/language_tools.h"
#include "hone/eval/scores/metrics.h"
#include "hone/train/rl/rewards/sandbox.h"

namespace hone::eval {

struct ScoringConfig {
  train::rl::SandboxConfig sandbox;
  std::string python;  // with langdetect and nltk; empty: no Python runs
};

class AnswerScorer {
 public:
  // Throws UserError(usage) if a task needs what is not allowed or not installed.
  AnswerScorer(const std::vector<Task>& tasks, const ScoringConfig& config);

  // Removes documents that cannot be scored, with a warning.
  void remove_unscorable(const Task& task, std::vector<Json>& documents) const;
  // The scores of each document's answers.
  std::vector<MetricItems> score(const Task& task, const std::vector<Json>& documents, const std::vector<Answers>& answers) const;

 private:
  std::vector<MetricItems> pass_at_k(const Task& task, const std::vector<Json>& documents,
                                     const std::vector<Answers>& answers) const;
  std::vector<MetricItems> instructions(const std::vector<Json>& documents, const std::vector<Answers>& answers) const;

  ScoringConfig config_;
  std::unique_ptr<LanguageTools> tools_;
};

}  // namespace hone::eval
