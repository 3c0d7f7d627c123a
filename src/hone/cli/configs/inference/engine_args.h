// Engine settings written in vLLM's and SGLang's formats: JSON of engine arguments, and speculative decoding.
#pragma once
#include "hone/cli/arguments/arg.h"
#include "hone/engine/engine.h"

namespace hone::cli {

// vllm_speculative_config '{"method": "ngram", "num_speculative_tokens": 4}', sglang_speculative_algorithm NGRAM. Other methods
// need a second model and are refused.
void apply_speculation(const Options& options, engine::EngineConfig& config);

// The value of this vLLM key in vllm_engine_kwargs, or of its SGLang name in sglang_config, or in the engine_kwargs of `sample`;
// null if absent.
Json engine_argument(const Options& options, const std::string& key);

// An integer that has an option, and such a key, which takes precedence.
int64_t engine_integer(const Options& options, const Arg<int64_t>& option, const std::string& key);

// vllm_engine_kwargs (LLaMA-Factory's vllm_config), sglang_config and the engine_kwargs of `sample`: the engines' own argument
// names. Unknown ones are rejected.
void apply_engine_args(const Options& options, engine::EngineConfig& config);

}  // namespace hone::cli
