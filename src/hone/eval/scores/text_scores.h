// Compares a response with its reference as text: exact match, F1, ROUGE, BLEU, or mathematically.
#pragma once
#include <string>

#include "hone/eval/tasks/task.h"

namespace hone::eval {

// Between 0 and 1; ROUGE and BLEU in percent, as predict_with_generate reports them.
double text_score(const MetricConfig& metric, const std::string& answer, const std::string& reference);

// SQuAD's word-level F1: lower case, without punctuation and articles.
double word_f1(const std::string& answer, const std::string& reference);

}  // namespace hone::eval
