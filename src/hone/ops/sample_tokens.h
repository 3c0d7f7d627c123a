// Samples the next token of each row on the device of the logits: greedy, or at a temperature.
#pragma once
#include <vector>

#include "hone/device/tensor.h"

namespace hone::ops {

struct SamplingTensors {
  std::vector<float> temperatures;  // 0: the most likely
  std::vector<int64_t> keys;        // of the random draw: a row's own
  std::vector<int32_t> top_k = {};  // 0: all. With top_p for every row, where can_filter_on() holds
  std::vector<float> top_p = {};    // 1: all
};

bool can_sample_on_device(const Tensor& logits_rv, double temperature);
bool can_filter_on(const Tensor& logits_rv);                                  // whether it may draw from the top k and p
Tensor sample_tokens(const Tensor& logits_rv, const SamplingTensors& draws);  // int64 [rows]

// Sets tokens outside a row's top_k and top_p, at its temperature, to minus infinity.
Tensor top_k_top_p_logits(const Tensor& logits_rv, const SamplingTensors& draws);
// Sets all but the `k` largest (int [rows], 0: all), and of these the smallest set with probability `p` (float [rows]), to minus
// infinity.
Tensor top_k_top_p_plain(const Tensor& logits_rv, const Tensor& k, const Tensor& p);

}  // namespace hone::ops
