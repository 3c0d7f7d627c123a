#include "hone/eval/scores/text_scores.h"

#include <algorithm>
#include <map>

#include "hone/text/jinja/unicode.h"
#include "hone/text/python_regex.h"
#include "hone/train/evaluation/nlg_metrics.h"
#include "hone/train/rl/rewards/math_answer.h"
#include "hone/train/rl/rewards/words.h"

namespace hone::eval {
namespace {

constexpr std::string_view kPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

std::string without(std::string text, std::string_view characters) {
  std::erase_if(text, [&](char c) { return characters.find(c) != characters.npos; });
  return text;
}

// Caches a task's few patterns for all of its answers.
const text::PythonRegex& compiled_once(const std::string& pattern) {
  thread_local std::map<std::string, text::PythonRegex> known;
  auto found = known.find(pattern);
  if (found == known.end())
    found = known.emplace(pattern, text::PythonRegex::compile(pattern).or_throw(ExitCode::bad_data, "regexes_to_ignore")).first;
  return found->second;
}

// The normalization of exact_match.
std::string normalized(const Json& arguments, std::string text) {
  for (const auto& pattern : arguments.value("regexes_to_ignore", Json::array()))
    text = compiled_once(pattern.get<std::string>()).replace(text, "");
  if (arguments.value("ignore_case", false)) text = text::jinja::to_lower(text);
  if (arguments.value("ignore_punctuation", false)) text = without(std::move(text), kPunctuation);
  if (arguments.value("ignore_numbers", false)) text = without(std::move(text), "0123456789");
  return text;
}

std::vector<std::string> squad_words(const std::string& text) {
  auto words = train::rl::lower_words(text);
  for (auto& word : words) word = without(std::move(word), kPunctuation);
  std::erase_if(words, [](const std::string& word) { return word.empty() || word == "a" || word == "an" || word == "the"; });
  return words;
}

bool same_mathematically(const std::string& answer, const std::string& reference) {
  auto gold = train::rl::find_answer(reference), found = train::rl::find_answer(answer);
  return gold && found && train::rl::same_answer(*gold, *found);
}

}  // namespace

double word_f1(const std::string& answer, const std::string& reference) {
  auto ours = squad_words(answer), theirs = squad_words(reference);
  if (ours.empty() || theirs.empty()) return ours.empty() && theirs.empty() ? 1 : 0;
  std::map<std::string, int64_t> left;
  for (const auto& word : theirs) ++left[word];
  double shared = 0;
  for (const auto& word : ours)
    if (auto found = left.find(word); found != left.end() && found->second-- > 0) ++shared;
  if (shared == 0) return 0;
  double precision = shared / static_cast<double>(ours.size()), recall = shared / static_cast<double>(theirs.size());
  return 2 * precision * recall / (precision + recall);
}

double text_score(const MetricConfig& metric, const std::string& answer, const std::string& reference) {
  if (metric.name == "exact_match")
    return normalized(metric.arguments, answer) == normalized(metric.arguments, reference) ? 1 : 0;
  if (metric.name == "f1") return word_f1(answer, reference);
  if (metric.name == "math_verify") return same_mathematically(answer, reference) ? 1 : 0;
  auto scores = train::score_text(answer, reference);
  if (metric.name == "rouge-1") return scores.rouge_1;
  if (metric.name == "rouge-2") return scores.rouge_2;
  return metric.name == "rouge-l" ? scores.rouge_l : scores.bleu_4;
}

}  // namespace hone::eval
