// A conversation as numbers: token ids and, for each, the label to learn (or kIgnore).
#pragma once
#include <string>
#include <vector>

#include "hone/data/encode/pictures.h"
#include "hone/data/row.h"
#include "hone/text/tokenizer.h"

namespace hone::data {

inline constexpr text::TokenId kIgnore = -100;

struct Sample {
  std::vector<text::TokenId> ids;
  std::vector<text::TokenId> labels;  // same length; labels[i] is ids[i] or kIgnore (the shift by one happens in the batch)
  std::vector<float> loss_scale;      // same length, or empty when every labeled token weighs 1
  std::vector<float>
      sequence_labels;  // of the whole text, where it is judged as one: its classes or values, how like or relevant it is
  std::vector<Picture> pictures;  // in the order of their placeholders
  std::string channel;
  RowOrigin origin;
  int64_t row = -1;  // index in the source
};

}  // namespace hone::data
