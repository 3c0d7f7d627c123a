// Quantizes a model to a folder that transformers, vLLM and hone read.
#pragma once
#include <filesystem>

#include "hone/model/causal_lm.h"
#include "hone/ops/quantization/quantized_tensor.h"

namespace hone::tuner {

enum class QuantFormat { gptq, gptq_v2, awq, bitsandbytes, fp8 };

struct QuantizeConfig {
  QuantFormat method = QuantFormat::gptq;
  int bits = 4;
  int64_t group = 128;
  ops::WeightQuantization codes;           // of bitsandbytes
  at::ScalarType stored_type = at::kHalf;  // of what stays whole
  size_t max_shard_bytes = 5'000'000'000;
  bool exist_ok = false;

  bool needs_calibration() const {
    return method == QuantFormat::gptq || method == QuantFormat::gptq_v2 || method == QuantFormat::awq;
  }
};

// The relative change of the layers' outputs on the calibration texts; `nearest` is that of plain rounding on the same grid.
// Without texts both are 0.
struct QuantizeReport {
  size_t layers = 0;
  size_t bytes_before = 0, bytes_after = 0;  // of those layers
  double error = 0, nearest = 0;
};

// Throws UserError(usage) before any work for sizes that the format does not support. Changes the model's weights.
void check_quantizable(const model::DecoderConfig& config, const QuantizeConfig& how);
QuantizeReport export_quantized(model::CausalLM& model, std::vector<model::ForwardInput> texts, const QuantizeConfig& how,
                                const std::filesystem::path& source, const std::filesystem::path& output);

}  // namespace hone::tuner
