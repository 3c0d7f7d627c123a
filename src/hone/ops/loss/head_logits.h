// Logits of a few rows from a head that may have adapters: shared by all rows, or per row.
#pragma once
#include "hone/ops/linear/multi_lora.h"

namespace hone::ops {

Tensor head_logits_plain(const Tensor& x, const Tensor& weight, const Tensor& bias, const std::vector<LoraWeights>& adapters,
                         const LoraMapping& adapter_rows, bool training);
// The parameters of such a head, in the order that autograd nodes take them.
TensorList head_parameters(const Tensor& weight, const Tensor& bias, const std::vector<LoraWeights>& adapters);
// How many rows of logits are computed at a time: a multiple of 16.
int64_t rows_of_chunk(size_t chunk_bytes, int64_t words, size_t element_size = sizeof(float));
// x [n, h] are the rows `places`, sorted, of those that `adapter_rows` describes.
Tensor head_logits(const Tensor& x, const Tensor& places, const Tensor& weight, const Tensor& bias,
                   const std::vector<LoraWeights>& adapters, const LoraMapping& adapter_rows, bool training);

}  // namespace hone::ops
