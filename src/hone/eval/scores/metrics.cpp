#include "hone/eval/scores/metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hone/base/strings/utf8.h"
#include "hone/eval/scores/text_scores.h"
#include "hone/text/jinja/unicode.h"

namespace hone::eval {
namespace {

constexpr int64_t kNoChoice = -100;

struct KnownMetric {
  std::string_view name;
  OutputType type;
  std::string_view aggregation;
  bool higher_is_better = true;
};
constexpr KnownMetric kMetrics[] = {
    {"acc", OutputType::multiple_choice, "mean"},
    {"acc_norm", OutputType::multiple_choice, "mean"},
    {"acc_bytes", OutputType::multiple_choice, "mean"},
    {"acc_mutual_info", OutputType::multiple_choice, "mean"},
    {"exact_match", OutputType::multiple_choice, "mean"},
    {"f1", OutputType::multiple_choice, "f1"},
    {"mcc", OutputType::multiple_choice, "matthews_corrcoef"},
    {"brier_score", OutputType::multiple_choice, "brier_score", false},
    {"acc", OutputType::loglikelihood, "mean"},
    {"perplexity", OutputType::loglikelihood, "perplexity", false},
    {"word_perplexity", OutputType::loglikelihood_rolling, "weighted_perplexity", false},
    {"byte_perplexity", OutputType::loglikelihood_rolling, "weighted_perplexity", false},
    {"bits_per_byte", OutputType::loglikelihood_rolling, "bits_per_byte", false},
    {"exact_match", OutputType::generate_until, "mean"},
    {"f1", OutputType::generate_until, "mean"},
    {"rouge-1", OutputType::generate_until, "mean"},
    {"rouge-2", OutputType::generate_until, "mean"},
    {"rouge-l", OutputType::generate_until, "mean"},
    {"bleu-4", OutputType::generate_until, "mean"},
    {"math_verify", OutputType::generate_until, "mean"},
    {"pass_at_k", OutputType::generate_until, "mean"},
    {"prompt_level_strict_acc", OutputType::generate_until, "mean"},
    {"inst_level_strict_acc", OutputType::generate_until, "weighted_mean"},
    {"prompt_level_loose_acc", OutputType::generate_until, "mean"},
    {"inst_level_loose_acc", OutputType::generate_until, "weighted_mean"},
};

size_t largest(const std::vector<double>& values) {
  return static_cast<size_t>(std::ranges::max_element(values) - values.begin());
}

// The index of each correct choice; kNoChoice for values outside the choices.
std::vector<int64_t> gold_choices(const Json& target, const std::vector<std::string>& choices) {
  auto index_of = [&](const Json& one) -> int64_t {
    if (one.is_number_integer() || one.is_boolean()) {
      auto index = one.is_boolean() ? static_cast<int64_t>(one.get<bool>()) : one.get<int64_t>();
      return index < static_cast<int64_t>(choices.size()) ? index : kNoChoice;
    }
    auto found = std::ranges::find(choices, one.is_string() ? one.get<std::string>() : one.dump());
    return found == choices.end() ? kNoChoice : found - choices.begin();
  };
  std::vector<int64_t> gold;
  if (target.is_array())
    for (const auto& one : target) gold.push_back(index_of(one));
  else
    gold.push_back(index_of(target));
  return gold;
}

Json right_answer(const Task& task, const Json& document) {
  const auto input = task.right_input(document);
  return input ? Json(*input) : task.target.target(document, true);
}

std::vector<double> softmax(const std::vector<double>& values) {
  double top = *std::ranges::max_element(values), total = 0;
  std::vector<double> out;
  for (double value : values) out.push_back(std::exp(value - top)), total += out.back();
  for (double& value : out) value /= total;
  return out;
}

double weighted_mean(const std::vector<MetricItem>& items) {
  double sum = 0, weights = 0;
  for (const auto& item : items) sum += item.value, weights += item.weight;
  return sum / weights;
}

double mean_of(const std::vector<MetricItem>& items) {
  double sum = 0;
  for (const auto& item : items) sum += item.value;
  return sum / static_cast<double>(items.size());
}

struct Counts {
  double true_positive = 0, true_negative = 0, false_positive = 0, false_negative = 0;
};
Counts binary_counts(const std::vector<MetricItem>& items) {
  Counts counts;
  for (const auto& item : items)
    (item.predicted == 1 ? item.gold == 1 ? counts.true_positive : counts.false_positive
     : item.gold == 1    ? counts.false_negative
                         : counts.true_negative) += 1;
  return counts;
}

// Multiclass Matthews correlation coefficient, as in scikit-learn.
double matthews(const std::vector<MetricItem>& items) {
  std::map<int64_t, double> gold, predicted;
  double correct = 0, total = static_cast<double>(items.size());
  for (const auto& item : items) ++gold[item.gold], ++predicted[item.predicted], correct += item.gold == item.predicted;
  double both = 0, gold_squares = 0, predicted_squares = 0;
  for (const auto& [label, count] : gold)
    gold_squares += count * count, both += count * (predicted.contains(label) ? predicted[label] : 0);
  for (const auto& [label, count] : predicted) predicted_squares += count * count;
  double below = (total * total - gold_squares) * (total * total - predicted_squares);
  return below > 0 ? (correct * total - both) / std::sqrt(below) : 0;
}

double brier(const std::vector<MetricItem>& items) {
  double sum = 0;
  for (const auto& item : items)
    for (size_t i = 0; i < item.probabilities.size(); ++i) {
      double miss = item.probabilities[i] - (static_cast<int64_t>(i) == item.gold ? 1 : 0);
      sum += miss * miss;
    }
  return sum / static_cast<double>(items.size());
}

}  // namespace

std::vector<std::string> default_metrics(OutputType type) {
  switch (type) {
    case OutputType::multiple_choice:
      return {"acc", "acc_norm"};
    case OutputType::loglikelihood:
      return {"perplexity", "acc"};
    case OutputType::loglikelihood_rolling:
      return {"word_perplexity", "byte_perplexity", "bits_per_byte"};
    case OutputType::generate_until:
      break;
  }
  return {"exact_match"};
}

void check_metric(MetricConfig& metric, OutputType type, const std::string& where) {
  std::string names;
  for (const auto& known : kMetrics) {
    if (known.type != type) continue;
    names += (names.empty() ? "" : ", ") + std::string(known.name);
    if (known.name != metric.name && !(known.name == "pass_at_k" && metric.name.starts_with("pass@"))) continue;
    metric.higher_is_better = known.higher_is_better;
    if (metric.aggregation.empty()) metric.aggregation = known.aggregation;
    bool kept = metric.aggregation == known.aggregation || (known.aggregation == "mean" && metric.aggregation == "nanmean");
    if (!kept)
      throw UserError(ExitCode::bad_data, fmt::format("{}: {} is aggregated by {}", where, metric.name, metric.aggregation),
                      fmt::format("expected {}", known.aggregation));
    return;
  }
  throw UserError(ExitCode::bad_data, fmt::format("{}: there is no metric {} for this output_type", where, metric.name),
                  "expected " + names);
}

bool has_answer_among_choices(const Task& task, const Json& document, const std::vector<std::string>& choices) {
  return std::ranges::count(gold_choices(right_answer(task, document), choices), kNoChoice) == 0;
}

MetricItems score_choices(const Task& task, const Json& document, const std::vector<Likelihood>& conditional,
                          const std::vector<Likelihood>& unconditional) {
  auto choices = task.choices.choices(document);
  std::vector<double> plain, by_length, by_bytes, mutual;
  for (size_t i = 0; i < choices.size(); ++i) {
    plain.push_back(conditional[i].logprob);
    by_length.push_back(plain[i] / static_cast<double>(count_characters(choices[i])));
    by_bytes.push_back(plain[i] / static_cast<double>(choices[i].size()));
    if (!unconditional.empty()) mutual.push_back(plain[i] - unconditional[i].logprob);
  }
  auto gold = gold_choices(right_answer(task, document), choices);
  auto right = [&](const std::vector<double>& scores) {
    return MetricItem{.value = std::ranges::count(gold, static_cast<int64_t>(largest(scores))) > 0 ? 1.0 : 0.0};
  };
  bool spoken =
      std::ranges::any_of(gold, [&](int64_t one) { return one >= 0 && conditional[static_cast<size_t>(one)].is_greedy; });
  MetricItem pair{.gold = gold[0], .predicted = static_cast<int64_t>(largest(plain)), .probabilities = softmax(plain)};
  MetricItems items;
  for (const auto& metric : task.metrics) {
    const auto& name = metric.name;
    items[name] = name == "acc"               ? right(plain)
                  : name == "acc_norm"        ? right(by_length)
                  : name == "acc_bytes"       ? right(by_bytes)
                  : name == "acc_mutual_info" ? right(mutual)
                  : name == "exact_match"     ? MetricItem{.value = spoken ? 1.0 : 0.0}
                                              : pair;
  }
  return items;
}

MetricItems score_loglikelihood(const Task& task, const Likelihood& likelihood) {
  MetricItems items;
  for (const auto& metric : task.metrics)
    items[metric.name] = {.value = metric.name == "acc" ? (likelihood.is_greedy ? 1.0 : 0.0) : likelihood.logprob};
  return items;
}

MetricItems score_rolling(const Task& task, const Json& document, double logprob) {
  auto text = task.target.text(document);
  // Python's re.split(r"\s+"): leading and trailing white space yields empty words.
  int64_t words = 1;
  bool in_space = false;
  for (size_t i = 0; i < text.size();) {
    bool space = text::jinja::is_space(text::jinja::next_code_point(text, i));
    words += space && !in_space;
    in_space = space;
  }
  MetricItems items;
  for (const auto& metric : task.metrics)
    items[metric.name] = {
        .value = logprob,
        .weight = static_cast<double>(metric.name == "word_perplexity" ? words : static_cast<int64_t>(text.size()))};
  return items;
}

MetricItems score_answer(const Task& task, const Json& document, const Json& answer) {
  auto target = task.target.target(document, task.choices.is_set());
  if (task.choices.is_set() && target.is_number_integer()) {
    auto choices = task.choices.choices(document);
    auto index = target.get<int64_t>();
    if (index < 0 || index >= static_cast<int64_t>(choices.size()))
      throw UserError(ExitCode::bad_data,
                      fmt::format("{}: the answer {} is not one of {} choices", task.name, index, choices.size()));
    target = choices[static_cast<size_t>(index)];
  }
  auto as_text = [](const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); };
  std::vector<std::string> references;
  if (target.is_array())
    for (const auto& one : target) references.push_back(as_text(one));
  else
    references.push_back(as_text(target));
  MetricItems items;
  for (const auto& metric : task.metrics) {
    double best = 0;
    for (const auto& reference : references) best = std::max(best, text_score(metric, as_text(answer), reference));
    items[metric.name] = {.value = best};
  }
  return items;
}

double aggregate(const MetricConfig& metric, const std::vector<MetricItem>& items) {
  if (items.empty()) return std::nan("");
  const auto& how = metric.aggregation;
  if (how == "perplexity") return std::exp(-mean_of(items));
  if (how == "weighted_perplexity") return std::exp(-weighted_mean(items));
  if (how == "bits_per_byte") return -weighted_mean(items) / std::log(2.0);
  if (how == "weighted_mean") return weighted_mean(items);
  if (how == "matthews_corrcoef") return matthews(items);
  if (how == "brier_score") return brier(items);
  if (how == "f1") {
    auto counts = binary_counts(items);
    double both = 2 * counts.true_positive + counts.false_positive + counts.false_negative;
    return both > 0 ? 2 * counts.true_positive / both : 0;
  }
  return mean_of(items);
}

std::optional<double> standard_error(const MetricConfig& metric, const std::vector<MetricItem>& items) {
  if ((metric.aggregation != "mean" && metric.aggregation != "nanmean") || items.size() < 2) return std::nullopt;
  double mean = mean_of(items), squares = 0;
  for (const auto& item : items) squares += (item.value - mean) * (item.value - mean);
  auto count = static_cast<double>(items.size());
  return std::sqrt(squares / (count - 1)) / std::sqrt(count);
}

}  // namespace hone::eval
