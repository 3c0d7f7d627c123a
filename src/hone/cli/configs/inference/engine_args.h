// What vLLM's and SGLang's own ways of writing settings ask of the engine: JSON of engine arguments, and guesses ahead.
#pragma once
#include "hone/cli/arguments/arg.h"
#include "hone/engine/engine.h"

namespace hone::cli {

// vllm_speculative_config '{"method": "ngram", "num_speculative_tokens": 4}', sglang_speculative_algorithm NGRAM. Other methods
// need a second model and are refused.
void apply_speculation(const Options& options, engine::EngineConfig& config);

// What vllm_engine_kwargs, or sglang_config in SGLang's words, says under this key of vLLM's; null when nothing.
Json engine_argument(const Options& options, const std::string& key);

// A integer that has an option, and such a key, which then counts.
int64_t engine_integer(const Options& options, const Arg<int64_t>& option, const std::string& key);

// vllm_engine_kwargs (LLaMA-Factory's vllm_config) and sglang_config: the engines' own names of their arguments. Unknown ones are
// refused.
void apply_engine_args(const Options& options, engine::EngineConfig& config);

}  // namespace hone::cli
