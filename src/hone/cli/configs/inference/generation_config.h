// From options and a model's generation_config.json to sampling parameters.
#pragma once
#include <filesystem>

#include "hone/cli/options.h"
#include "hone/engine/engine.h"

namespace hone::cli {

// Unset values come from generation_config.json, then from transformers' defaults. End tokens are left empty.
engine::SamplingParams sampling_params(const Options& options, const std::filesystem::path& model_folder);

// Without options: a model's own settings.
engine::SamplingParams default_sampling(const std::filesystem::path& model_folder, uint64_t seed);

// --vllm_…, --sglang_… and --max_batch_size, as far as they concern one engine on one device. Other settings of
// vllm_engine_kwargs and vllm_speculative_config are rejected.
engine::EngineConfig engine_config(const Options& options);

// The engine_config's max_sequences.
int64_t max_num_seqs(const Options& options);

// Maximum length of prompt and completion, if set separately: LLaMA-Factory's max_length, which applies without max_new_tokens.
// 0: the model's.
int64_t max_total_length(const Options& options);

// --structured_outputs_regex; null when none is given.
std::shared_ptr<const engine::Constraint> completion_regex(const Options& options, const text::Tokenizer& tokenizer,
                                                           const std::vector<text::TokenId>& end_tokens);

// vLLM's rule for --vllm_max_lora_rank, if given. Throws UserError naming the adapter.
void check_adapter_rank(const Options& options, const std::filesystem::path& adapter);
// Warns if the adapter's config names another base model: shapes may match although the weights differ.
void remark_other_base(const Options& options, const std::filesystem::path& adapter);

// The end-of-text ids that generation_config.json (else config.json) lists.
std::vector<text::TokenId> end_tokens(const std::filesystem::path& model_folder);

}  // namespace hone::cli
