#include "hone/eval/scores/answer_scorer.h"

#include <algorithm>

#include "hone/base/log.h"
#include "hone/base/thread_pool.h"
#include "hone/base/usable_cores.h"

namespace hone::eval {
namespace {

std::string only_text(const Answers& answers) {
  return answers.empty() || !answers[0].is_string() ? std::string() : answers[0].get<std::string>();
}

// The probability that k of n programs, drawn without replacement, include a correct one.
double probability_of_pass(int64_t n, int64_t correct, int64_t k) {
  if (n - correct < k) return 1;
  double none = 1;
  for (int64_t i = n - correct + 1; i <= n; ++i) none *= 1 - static_cast<double>(k) / static_cast<double>(i);
  return 1 - none;
}

}  // namespace

AnswerScorer::AnswerScorer(const std::vector<Task>& tasks, const ScoringConfig& config) : config_(config) {
  for (const auto& task : tasks) {
    if (task.process_results == "ifeval" && !config.python.empty() && !tools_)
      tools_ = std::make_unique<LanguageTools>(config.python);
    if (!task.runs_programs()) continue;
    if (!config.sandbox.enabled)
      throw UserError(ExitCode::usage, fmt::format("{} runs programs that a model wrote", task.name),
                      "to allow it in a sandbox, set `code_sandbox` bubblewrap (docs/evaluation.md)");
    train::rl::require_sandbox();
    for (const auto& metric : task.metrics)
      if (const auto k = metric.arguments.value("k", int64_t{1}); metric.name.starts_with("pass@") && k > task.repeats)
        throw UserError(ExitCode::usage,
                        fmt::format("{}: {} needs {} completions, and {} is sampled", task.name, metric.name, k, task.repeats),
                        fmt::format("`eval_generation_config` '{{\"n\": {}, \"temperature\": 0.2}}'", k));
  }
}

void AnswerScorer::remove_unscorable(const Task& task, std::vector<Json>& documents) const {
  if (task.process_results != "ifeval" || tools_) return;
  const auto all = documents.size();
  std::erase_if(documents, needs_text_analysis);
  if (documents.size() == all) return;
  if (documents.empty())
    throw UserError(ExitCode::usage,
                    fmt::format("each of the {} documents of {} needs Python's langdetect and nltk", all, task.name),
                    "`plugin_python` names an interpreter that has them (docs/evaluation.md)");
  log::warning(
      "{}: {} of {} documents are left out, since they need Python's langdetect and nltk; `plugin_python` names an interpreter "
      "that has them (docs/evaluation.md)",
      task.name, all - documents.size(), all);
}

std::vector<MetricItems> AnswerScorer::score(const Task& task, const std::vector<Json>& documents,
                                             const std::vector<Answers>& answers) const {
  if (task.process_results == "ifeval") return instructions(documents, answers);
  if (task.runs_programs()) return pass_at_k(task, documents, answers);
  std::vector<MetricItems> scores;
  for (size_t i = 0; i < documents.size(); ++i)
    scores.push_back(score_answer(task, documents[i], answers[i].empty() ? Json("") : answers[i][0]));
  return scores;
}

std::vector<MetricItems> AnswerScorer::pass_at_k(const Task& task, const std::vector<Json>& documents,
                                                 const std::vector<Answers>& answers) const {
  std::vector<std::vector<std::future<train::rl::ProgramResult>>> running(documents.size());
  ThreadPool pool(static_cast<size_t>(usable_cores()));
  for (size_t i = 0; i < documents.size(); ++i)
    for (const auto& answer : answers[i])
      running[i].push_back(pool.submit([this, program = only_text({answer}), checks = task.target.text(documents[i])] {
        return train::rl::run_checks_in_sandbox(program, checks, config_.sandbox);
      }));
  std::vector<MetricItems> scores(documents.size());
  for (size_t i = 0; i < documents.size(); ++i) {
    int64_t correct = 0;
    for (auto& one : running[i]) correct += one.get().end == train::rl::ProgramResult::End::finished;
    for (const auto& metric : task.metrics)
      scores[i][metric.name] = {.value = probability_of_pass(static_cast<int64_t>(running[i].size()), correct,
                                                             metric.arguments.value("k", int64_t{1}))};
  }
  return scores;
}

std::vector<MetricItems> AnswerScorer::instructions(const std::vector<Json>& documents,
                                                    const std::vector<Answers>& answers) const {
  std::set<std::string> texts;
  for (size_t i = 0; i < documents.size(); ++i)
    if (tools_ && needs_text_analysis(documents[i]))
      for (auto& form : accepted_forms(only_text(answers[i]))) texts.insert(std::move(form));
  const auto analyses = tools_ ? tools_->analyze(texts) : TextAnalyses();
  std::vector<MetricItems> scores;
  for (size_t i = 0; i < documents.size(); ++i)
    scores.push_back(score_instructions(documents[i], only_text(answers[i]), analyses));
  return scores;
}

}  // namespace hone::eval
