// The next token of each row, chosen where the logits are: the likeliest, or one drawn at a temperature.
#pragma once
#include <vector>

#include "hone/device/tensor.h"

namespace hone::ops {

struct DrawSettings {
  std::vector<float> temperatures;  // 0: the likeliest
  std::vector<int64_t> keys;        // of the random draw: a row's own
};

bool can_choose_on(const Tensor& logits_rv, double temperature);
Tensor choose_tokens(const Tensor& logits_rv, const DrawSettings& draws);  // int64 [rows]

}  // namespace hone::ops
