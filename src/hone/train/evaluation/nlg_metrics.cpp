#include "hone/train/evaluation/nlg_metrics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace hone::train {
namespace {

using Words = std::vector<std::string>;

bool is_letter_or_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

size_t code_point_length(char lead) {
  auto byte = static_cast<unsigned char>(lead);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// "word", "3.14", "50%": letters and digits, then at most one decimal part and one percent sign.
size_t word_length(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && is_letter_or_digit(text[end])) ++end;
  if (end == 0) return 0;
  if (end + 1 < text.size() && text[end] == '.' && is_digit(text[end + 1])) {
    ++end;
    while (end < text.size() && is_digit(text[end])) ++end;
  }
  return end < text.size() && text[end] == '%' ? end + 1 : end;
}

Words characters(std::string_view text) {
  Words all;
  while (!text.empty()) {
    size_t length = std::min(code_point_length(text[0]), text.size());
    all.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return all;
}

double f1(double overlap, double predicted, double reference) {
  double precision = predicted > 0 ? overlap / predicted : 0, recall = reference > 0 ? overlap / reference : 0;
  return 2 * precision * recall / (precision + recall + 1e-8);
}

std::set<Words> distinct_ngrams(const Words& words, size_t n) {
  std::set<Words> found;
  for (size_t i = 0; i + n <= words.size(); ++i)
    found.emplace(words.begin() + static_cast<long>(i), words.begin() + static_cast<long>(i + n));
  return found;
}

double rouge_n(const Words& predicted, const Words& reference, size_t n) {
  auto ours = distinct_ngrams(predicted, n), theirs = distinct_ngrams(reference, n);
  auto overlap = std::count_if(ours.begin(), ours.end(), [&](const Words& ngram) { return theirs.contains(ngram); });
  return f1(static_cast<double>(overlap), static_cast<double>(ours.size()), static_cast<double>(theirs.size()));
}

// Length of the longest common subsequence, one row of the table at a time.
size_t common_subsequence(const Words& a, const Words& b) {
  std::vector<size_t> row(b.size() + 1, 0);
  for (const auto& word : a) {
    size_t diagonal = 0;
    for (size_t j = 0; j < b.size(); ++j) {
      size_t above = row[j + 1];
      row[j + 1] = word == b[j] ? diagonal + 1 : std::max(above, row[j]);
      diagonal = above;
    }
  }
  return row.back();
}

std::map<Words, int64_t> count_ngrams(const Words& words, size_t n) {
  std::map<Words, int64_t> counts;
  for (size_t i = 0; i + n <= words.size(); ++i)
    ++counts[Words(words.begin() + static_cast<long>(i), words.begin() + static_cast<long>(i + n))];
  return counts;
}

// Sentence BLEU over 1- to 4-grams; an order without a match counts 1/2, the next 1/4 … of one match (NIST's geometric
// smoothing).
double bleu_4(const Words& predicted, const Words& reference) {
  double log_precision = 0, unseen = 1;
  for (size_t n = 1; n <= 4; ++n) {
    auto ours = count_ngrams(predicted, n), theirs = count_ngrams(reference, n);
    double matches = 0;
    for (const auto& [ngram, count] : ours)
      if (auto found = theirs.find(ngram); found != theirs.end()) matches += static_cast<double>(std::min(count, found->second));
    if (n == 1 && matches == 0) return 0;
    double total = predicted.size() >= n ? static_cast<double>(predicted.size() - n + 1) : 1.0;
    if (matches == 0) matches = unseen /= 2;
    log_precision += 0.25 * std::log(matches / total);
  }
  auto ours = static_cast<double>(predicted.size()), theirs = static_cast<double>(reference.size());
  double brevity = ours > theirs ? 1.0 : std::exp(1.0 - theirs / ours);
  return brevity * std::exp(log_precision);
}

double percent(double score) { return std::round(score * 1e6) / 1e4; }

}  // namespace

std::vector<std::string> rouge_words(std::string_view text) {
  Words words;
  while (!text.empty()) {
    size_t length = word_length(text);
    if (length == 0) length = std::min(code_point_length(text[0]), text.size());
    bool blank = length == 1 && (text[0] == ' ' || (text[0] >= '\t' && text[0] <= '\r'));
    if (!blank) words.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return words;
}

TextScores score_text(std::string_view predicted, std::string_view reference) {
  TextScores scores;
  auto ours = rouge_words(predicted), theirs = rouge_words(reference);
  if (!ours.empty() && !theirs.empty()) {
    scores.rouge_1 = percent(rouge_n(ours, theirs, 1));
    scores.rouge_2 = percent(rouge_n(ours, theirs, 2));
    auto common = static_cast<double>(common_subsequence(ours, theirs));
    scores.rouge_l = percent(f1(common, static_cast<double>(ours.size()), static_cast<double>(theirs.size())));
  }
  scores.bleu_4 = percent(bleu_4(characters(predicted), characters(reference)));
  return scores;
}

}  // namespace hone::train
