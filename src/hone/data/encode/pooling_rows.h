// Rows for sequence-level tasks: a text and its classes, an anchor with its positives and negatives, a query with candidates.
// Each row becomes several labeled samples that stay in one batch.
#pragma once
#include <vector>

#include "hone/base/rng.h"
#include "hone/data/conversation.h"
#include "hone/data/encode/encoder.h"
#include "hone/data/sample.h"

namespace hone::data {

enum class PoolingTask { classes, embedding, reranking, decisions };

struct PoolingDataConfig {
  PoolingTask kind = PoolingTask::classes;
  bool whole_numbers = true;                       // classes: a grade is the number of a class …
  bool one_class = true;                           // … and there is exactly one
  int64_t classes = 2;                             // numbers are below this; of values, how many a text has
  int64_t most_positives = 1, most_negatives = 7;  // relevance: candidates of a batch, redrawn in each epoch
};

// classes: one sample. likeness: the anchor, which is unlabeled, its positive and its negatives. relevance: the query with each
// candidate, positive ones first. decisions: one sample, labeled with the probability of each option (decision_rows.h). Columns
// are ms-swift's: label, positive_messages, negative_messages, and the media of these texts (positive_images, …).
Result<std::vector<Sample>> encode_pooling_row(const Encoder& encoder, const Conversation& conversation,
                                               const PoolingDataConfig& config);

// One text of a group as in training: closed if it ends with a response, else open at the generation prompt.
Result<Sample> encode_pooling_text(const Encoder& encoder, const Conversation& conversation);
// For callers that read its token ids alone: a text with media is an error.
Result<Sample> encode_pooling_tokens(const Encoder& encoder, const Conversation& conversation);

// A decision row without its label: zeros for all options.
Result<Sample> encode_decision(const Encoder& encoder, const Conversation& conversation);

// relevance: some of the positives, each followed by some of the negatives.
std::vector<Sample> sample_candidates(const std::vector<Sample>& all, const PoolingDataConfig& config, Rng& rng);

}  // namespace hone::data
