// Initialization of LoRA matrices, and the changes of PiSSA, OLoRA and LoftQ to the base weight.
#pragma once
#include <string>

#include "hone/device/tensor.h"
#include "hone/io/peft.h"

namespace hone::tuner {

struct LoraPair {
  Tensor a, b;      // [rank, in], [out, rank], float32 on the weight's device
  Tensor residual;  // the base weight to use from now on; undefined when it does not change
};

// Throws UserError(usage) for an unknown kind, or one whose inputs are missing.
void check_init(const std::string& kind);
// True for kinds that start from the base weight and change it; files of such adapters require the changed base, which is
// recomputed from the original.
bool changes_base(const std::string& kind);
// True for kinds whose change of the base is the initialization itself, so that it can be written as a plain adapter.
bool inits_from_base(const std::string& kind);

// A random stream per layer: values do not depend on which other layers are adapted, and a reader of the file can redraw them.
at::Generator layer_generator(const std::string& path, uint64_t seed);

LoraPair init_lora(const Tensor& weight, int64_t rank, double scale, const io::AdapterConfig& config, at::Generator& generator);
LoraPair initial_embedding_lora(const Tensor& weight, int64_t rank, const std::string& kind, at::Generator& generator);

// The pair and the changed base weight: W - scale B A, rounded once.
LoraPair subtract_from_base(const Tensor& weight, const Tensor& a, const Tensor& b, double scale);

struct Svd {
  Tensor u, s, vh;
};
// The largest `width` singular values by a randomized range finder, for matrices whose full decomposition is too expensive.
Svd low_rank_svd(const Tensor& matrix, int64_t width, int64_t iterations, at::Generator& generator);

// DoRA's magnitudes: the norm of each row of W + scale B A.
Tensor dora_magnitudes(const Tensor& weight, const Tensor& a, const Tensor& b, double scale);

// LoftQ: a quantized base weight, and the low-rank pair that best compensates for the quantization error.
// Each block of 64 values on the 16 quantiles of a normal distribution (NF4), scaled to the block's largest magnitude.
Tensor rounded_to_nf4(const Tensor& weight);
// Each row on 255 even steps up to its largest magnitude.
Tensor rounded_to_int8(const Tensor& weight);

// `bits` is 4 or 8. Each iteration quantizes the residual of the previous pair; the pair is scaled by `scale`.
LoraPair loftq(const Tensor& weight, int64_t rank, double scale, int64_t bits, int64_t rounds);

}  // namespace hone::tuner
