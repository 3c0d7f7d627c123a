// A tokenized conversation: token ids and, for each, the label (kIgnore: masked).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/data/encode/pictures.h"
#include "hone/data/row.h"
#include "hone/data/sounds/sounds.h"
#include "hone/text/tokenizer.h"

namespace hone::data {

inline constexpr text::TokenId kIgnore = -100;

enum class QuestionKind { yes_or_no, choice, score };

struct Sample {
  std::vector<text::TokenId> ids;
  std::vector<text::TokenId> labels;  // same length; labels[i] is ids[i] or kIgnore (the shift by one happens in the batch)
  std::vector<float> loss_scale;      // same length, or empty when every labeled token weighs 1
  // Labels of the full text for sequence-level tasks: classes or values, similarity or relevance, the target margin, or the
  // probability of each option of a decision.
  std::vector<float> sequence_labels;
  std::optional<QuestionKind> question;  // of a decision
  std::vector<Picture> pictures;         // in the order of their placeholders
  std::vector<Sound> sounds;             // the same
  std::string channel;
  RowOrigin origin;
  int64_t row = -1;  // index in the source
};

}  // namespace hone::data
