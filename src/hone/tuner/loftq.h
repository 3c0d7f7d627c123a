// LoftQ: a quantized base weight, and the low-rank pair that best compensates for the quantization error.
#pragma once
#include "hone/tuner/lora_init.h"

namespace hone::tuner {

// Each block of 64 values on the 16 quantiles of a normal distribution (NF4), scaled to the block's largest magnitude.
Tensor rounded_to_nf4(const Tensor& weight);
// Each row on 255 even steps up to its largest magnitude.
Tensor rounded_to_int8(const Tensor& weight);

// `bits` is 4 or 8. Each iteration quantizes the residual of the previous pair; the pair is scaled by `scale`.
LoraPair loftq(const Tensor& weight, int64_t rank, double scale, int64_t bits, int64_t rounds);

}  // namespace hone::tuner
