// vLLM's and SGLang's options for quantization of weights and of the KV cache.
#pragma once
#include <filesystem>
#include <optional>

#include "hone/cli/options.h"
#include "hone/engine/engine.h"
#include "hone/ops/quantization/quantized_tensor.h"

namespace hone::cli {

// --vllm_quantization must match the format of the folder, else UserError(usage), as in vLLM; bitsandbytes also quantizes
// full-precision weights on loading, and fp8 does so in the engine.
std::optional<ops::WeightQuantization> engine_compression(const Options& options, const std::filesystem::path& folder);

// --vllm_quantization fp8 with a full-precision folder: the engine stores the weights as float8.
bool rounds_to_float8(const Options& options, const std::filesystem::path& folder);

// --sglang_kv_cache_dtype, --lmdeploy_quant_policy, or kv_cache_dtype of vllm_engine_kwargs.
ops::KvCacheDtype cache_code(const Options& options);

}  // namespace hone::cli
