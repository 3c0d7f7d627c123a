// What vLLM's and SGLang's options say about few bits: how the weights are kept, and how the cache keeps keys and values.
#pragma once
#include <filesystem>
#include <optional>

#include "hone/cli/options.h"
#include "hone/engine/engine.h"
#include "hone/ops/quantization/quantized_tensor.h"

namespace hone::cli {

// --vllm_quantization names what the folder is kept in, else UserError(usage), as vLLM has it; bitsandbytes also rounds full
// weights while they are loaded, and fp8 when the engine has them.
std::optional<ops::WeightQuantization> engine_compression(const Options& options, const std::filesystem::path& folder);

// --vllm_quantization fp8 with a folder of full weights: the engine keeps them as 8-bit floats.
bool rounds_to_float8(const Options& options, const std::filesystem::path& folder);

// --sglang_kv_cache_dtype, --lmdeploy_quant_policy, or kv_cache_dtype of vllm_engine_kwargs.
ops::KvCacheDtype cache_code(const Options& options);

}  // namespace hone::cli
