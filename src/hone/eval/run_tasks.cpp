#include "hone/eval/run_tasks.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "hone/base/log.h"
#include "hone/base/progress.h"

namespace hone::eval {
namespace {

// One task during the run: its documents, prompts and results.
struct TaskRun {
  const Task* task;
  std::vector<Json> documents;
  int64_t total = 0;
  std::vector<std::vector<Prompt>> prompts;                           // of each document: one, or one for each choice
  size_t first_likelihood = 0, first_text = 0, first_generation = 0;  // index into the requests of all tasks
  std::vector<size_t> choices;                                        // per document
};

int64_t documents_to_score(int64_t total, double limit) {
  if (limit <= 0) return total;
  auto wanted = limit < 1 ? static_cast<int64_t>(std::ceil(static_cast<double>(total) * limit)) : static_cast<int64_t>(limit);
  return std::min(total, wanted);
}

std::vector<Json> example_documents(const Task& task, const FetchDataset& fetch) {
  if (task.num_fewshot == 0) return {};
  if (task.fewshot.split) return load_documents(task.dataset, *task.fewshot.split, fetch);
  if (task.fewshot.samples.is_array()) return task.fewshot.samples.get<std::vector<Json>>();
  if (task.training_split) return load_documents(task.dataset, *task.training_split, fetch);
  if (task.validation_split) return load_documents(task.dataset, *task.validation_split, fetch);
  return load_documents(task.dataset, *task.test_split, fetch);
}

// An error of a field names the document whose prompt was made.
template <class Work>
void for_documents(size_t count, Work work) {
  for (size_t i = 0; i < count; ++i) try {
      work(i);
    } catch (const UserError& problem) {
      throw UserError(problem.code(), fmt::format("{} (document {})", problem.what(), i), problem.hint());
    }
}

TaskRun prepare(const Task& task, const FetchDataset& fetch, const RunConfig& config, const AnswerScorer& scorer) {
  TaskRun run{
      .task = &task, .documents = load_documents(task.dataset, task.evaluated_split(), fetch), .prompts = {}, .choices = {}};
  process_documents(task, run.documents);
  scorer.remove_unscorable(task, run.documents);
  run.total = static_cast<int64_t>(run.documents.size());
  run.documents.resize(static_cast<size_t>(documents_to_score(run.total, config.limit)));
  if (task.output_type == OutputType::loglikelihood_rolling) return run;
  Prompter prompter(task, example_documents(task, fetch), config.fewshot_seed);
  for_documents(run.documents.size(), [&](size_t i) { run.prompts.push_back(prompter.prompts(run.documents[i])); });
  return run;
}

// The requests of all tasks, and later their results.
struct Requests {
  std::vector<LikelihoodRequest> likelihoods;
  std::vector<std::string> texts;
  std::vector<GenerationRequest> generations;
};

// In a chat the answer starts a message: no delimiter precedes it, unless the task has a response prefix.
std::string choice_delimiter(const Task& task, const Json& document, bool chat) {
  if (!chat) return task.target_delimiter;
  auto prefix = task.gen_prefix.is_set() ? task.gen_prefix.text(document) : "";
  return prefix.empty() || std::isspace(static_cast<unsigned char>(prefix.back())) ? "" : task.target_delimiter;
}

void add_choices(TaskRun& run, Requests& requests, bool chat) {
  const auto& task = *run.task;
  std::vector<size_t> unanswerable;
  for_documents(run.documents.size(), [&](size_t i) {
    auto choices = task.choices.choices(run.documents[i]);
    if (!has_answer_among_choices(task, run.documents[i], choices)) unanswerable.push_back(i);
    auto delimiter = choice_delimiter(task, run.documents[i], chat);
    run.choices.push_back(choices.size());
    const bool has_inputs = task.right_input(run.documents[i]).has_value();
    const auto answer = has_inputs ? task.target.text(run.documents[i]) : "";
    for (size_t c = 0; c < choices.size(); ++c)
      requests.likelihoods.push_back({run.prompts[i][has_inputs ? c : 0], delimiter + (has_inputs ? answer : choices[c])});
    if (task.asks_for("acc_mutual_info"))
      for (const auto& choice : choices) requests.likelihoods.push_back({{}, delimiter + choice});
  });
  if (unanswerable.empty()) return;
  const auto first = unanswerable[0];
  log::warning(
      "{}: {} of {} documents have an answer that is not one of their choices and count as wrong; document {} has {} and {} "
      "choices; check doc_to_target and doc_to_choice of the task",
      task.name, unanswerable.size(), run.documents.size(), first, task.target.target(run.documents[first], true).dump(),
      run.choices[first]);
}

void add_requests(TaskRun& run, Requests& requests, const RunConfig& config) {
  const auto& task = *run.task;
  run.first_likelihood = requests.likelihoods.size();
  run.first_text = requests.texts.size();
  run.first_generation = requests.generations.size();
  if (task.output_type == OutputType::multiple_choice) return add_choices(run, requests, config.apply_chat_template);
  for_documents(run.documents.size(), [&](size_t i) {
    if (task.output_type == OutputType::loglikelihood) {
      auto target = task.target.target(run.documents[i], false);
      requests.likelihoods.push_back({run.prompts[i].front(), target.is_string() ? target.get<std::string>() : target.dump()});
    } else if (task.output_type == OutputType::loglikelihood_rolling) {
      requests.texts.push_back(task.target.text(run.documents[i]));
    } else {
      for (int64_t repeat = 0; repeat < task.repeats; ++repeat)
        requests.generations.push_back({run.prompts[i].front(), task.generation,
                                        engine::seed_of(config.seed, static_cast<uint64_t>(requests.generations.size()))});
    }
  });
}

struct Outcomes {
  std::vector<Likelihood> likelihoods;
  std::vector<double> rolling;
  std::vector<std::string> answers;
};

// The generated answers of all documents of a task, and their scores by filter.
struct ScoredAnswers {
  std::vector<Answers> given;
  std::map<std::string, std::vector<Answers>> filtered;
  std::map<std::string, std::vector<MetricItems>> scores;
};

ScoredAnswers score_generated(const TaskRun& run, const Outcomes& outcomes, const AnswerScorer& scorer) {
  const auto& task = *run.task;
  ScoredAnswers scored;
  if (task.output_type != OutputType::generate_until) return scored;
  auto next = outcomes.answers.begin() + static_cast<long>(run.first_generation);
  for (size_t i = 0; i < run.documents.size(); ++i, next += task.repeats) scored.given.emplace_back(next, next + task.repeats);
  for (const auto& pipeline : task.filters) {
    auto& filtered = scored.filtered[pipeline.name];
    for (size_t i = 0; i < run.documents.size(); ++i) filtered.push_back(pipeline.apply(scored.given[i], run.documents[i]));
    scored.scores[pipeline.name] = scorer.score(task, run.documents, filtered);
  }
  return scored;
}

// The scores of one document, by filter.
std::map<std::string, MetricItems> score_document(const TaskRun& run, size_t document, const Outcomes& outcomes,
                                                  const ScoredAnswers& generated, size_t& at, Json& sample) {
  const auto& task = *run.task;
  const auto& filter = task.filters.front().name;
  const auto& content = run.documents[document];
  switch (task.output_type) {
    case OutputType::multiple_choice: {
      auto take = [&](size_t count) {
        std::vector<Likelihood> part(outcomes.likelihoods.begin() + static_cast<long>(at),
                                     outcomes.likelihoods.begin() + static_cast<long>(at + count));
        at += count;
        return part;
      };
      auto conditional = take(run.choices[document]);
      auto alone = task.asks_for("acc_mutual_info") ? take(run.choices[document]) : std::vector<Likelihood>();
      for (const auto& one : conditional) sample["resps"].push_back({one.logprob, one.is_greedy});
      return {{filter, score_choices(task, content, conditional, alone)}};
    }
    case OutputType::loglikelihood:
      sample["resps"].push_back({outcomes.likelihoods[at].logprob, outcomes.likelihoods[at].is_greedy});
      return {{filter, score_loglikelihood(task, outcomes.likelihoods[at++])}};
    case OutputType::loglikelihood_rolling:
      sample["resps"].push_back(outcomes.rolling[at]);
      return {{filter, score_rolling(task, content, outcomes.rolling[at++])}};
    case OutputType::generate_until:
      break;
  }
  sample["resps"] = generated.given[document];
  std::map<std::string, MetricItems> scores;
  for (const auto& pipeline : task.filters) {
    sample["filtered_resps"][pipeline.name] = generated.filtered.at(pipeline.name)[document];
    scores[pipeline.name] = generated.scores.at(pipeline.name)[document];
  }
  return scores;
}

TaskResult score(const TaskRun& run, const Outcomes& outcomes, const AnswerScorer& scorer, const RunConfig& config) {
  const auto& task = *run.task;
  TaskResult result{.name = task.name,
                    .alias = task.alias,
                    .version = task.version,
                    .num_fewshot = task.num_fewshot,
                    .samples = static_cast<int64_t>(run.documents.size()),
                    .documents = run.total,
                    .metrics = {},
                    .config = task.config,
                    .logged = {}};
  size_t at = task.output_type == OutputType::loglikelihood_rolling ? run.first_text : run.first_likelihood;
  const auto generated = score_generated(run, outcomes, scorer);
  std::map<std::pair<std::string, std::string>, std::vector<MetricItem>> items;  // by metric and filter
  for (size_t i = 0; i < run.documents.size(); ++i) {
    Json sample{{"doc_id", i}, {"doc", run.documents[i]}};
    if (!run.prompts.empty()) sample["prompt"] = plain_text(run.prompts[i].front());
    sample["target"] = task.target.target(run.documents[i], task.choices.is_set());
    for (const auto& [filter, scores] : score_document(run, i, outcomes, generated, at, sample))
      for (const auto& [metric, item] : scores) {
        items[{metric, filter}].push_back(item);
        sample[task.filters.size() > 1 ? metric + "," + filter : metric] = item.value;
      }
    if (config.keep_samples) result.logged.push_back(std::move(sample));
  }
  for (const auto& filter : task.filters)
    for (const auto& metric : task.metrics)
      if (auto found = items.find({metric.name, filter.name}); found != items.end())
        result.metrics.push_back({metric.name, filter.name, aggregate(metric, found->second),
                                  standard_error(metric, found->second), metric.higher_is_better});
  return result;
}

}  // namespace

std::vector<TaskResult> run_tasks(const std::vector<Task>& given, const LoadModel& load_model, const FetchDataset& fetch,
                                  const RunConfig& config) {
  auto tasks = given;
  for (auto& task : tasks)
    if (config.num_fewshot && !(task.config.contains("num_fewshot") && task.config["num_fewshot"] == 0))
      task.num_fewshot = *config.num_fewshot;
  const AnswerScorer scorer(tasks, config.scoring);
  std::vector<TaskRun> runs;
  Requests requests;
  for (const auto& task : tasks) {
    runs.push_back(prepare(task, fetch, config, scorer));
    add_requests(runs.back(), requests, config);
  }
  auto model = load_model();
  auto total = requests.likelihoods.size() + requests.texts.size() + requests.generations.size();
  ProgressBar bar("Eval", static_cast<int64_t>(total));
  int64_t done = 0;
  auto answered = [&](size_t count) { bar.update(done += static_cast<int64_t>(count)); };
  Outcomes outcomes{model->likelihoods(requests.likelihoods, answered), model->rolling_likelihoods(requests.texts, answered),
                    model->generate(requests.generations, answered)};
  bar.finish();
  std::vector<TaskResult> results;
  for (const auto& run : runs) results.push_back(score(run, outcomes, scorer, config));
  return results;
}

std::vector<TaskResult> run_groups(const std::vector<Group>& groups, const std::vector<TaskResult>& tasks) {
  std::map<std::string, std::vector<const TaskResult*>> leaves;  // results of tasks and groups by name
  for (const auto& task : tasks) leaves[task.name] = {&task};
  std::vector<TaskResult> results;
  for (const auto& group : groups) {
    TaskResult result{
        .name = group.name, .alias = group.alias, .version = group.version, .metrics = {}, .config = {}, .logged = {}};
    auto& members = leaves[group.name];
    for (const auto& member : group.members)
      for (const auto* leaf : leaves[member]) members.push_back(leaf);
    for (const auto* leaf : members) {
      result.samples += leaf->samples, result.documents += leaf->documents;
      result.num_fewshot = leaf->num_fewshot;
    }
    for (const auto& wanted : group.metrics) {
      std::map<std::string, std::vector<std::pair<const TaskResult*, const MetricResult*>>> found;  // by filter
      for (const auto* leaf : members)
        for (const auto& metric : leaf->metrics)
          if (metric.metric == wanted.metric && (wanted.filters.empty() || std::ranges::count(wanted.filters, metric.filter) > 0))
            found[metric.filter].emplace_back(leaf, &metric);
      for (const auto& [filter, parts] : found) {
        double sum = 0, sizes = 0, variance = 0, count = static_cast<double>(parts.size()), plain_variance = 0;
        bool has_stderr = true;
        for (const auto& [leaf, metric] : parts) {
          double size = static_cast<double>(leaf->samples), weight = wanted.weight_by_size ? size : 1;
          sum += metric->value * weight;
          sizes += weight;
          has_stderr &= metric->stderr_value.has_value();
          double error = metric->stderr_value.value_or(0);
          variance += (size - 1) * error * error * size;
          plain_variance += error * error;
        }
        MetricResult whole{wanted.metric, filter, sum / sizes, std::nullopt, parts[0].second->higher_is_better};
        if (has_stderr)
          whole.stderr_value =
              wanted.weight_by_size ? std::sqrt(variance / (sizes - count) / sizes) : std::sqrt(plain_variance) / count;
        result.metrics.push_back(std::move(whole));
      }
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace hone::eval
