// From options to the model of a command: its source, device, dtype and changes.
#pragma once
#include <filesystem>

#include "hone/cli/options.h"
#include "hone/model/causal_lm.h"
#include "hone/text/new_tokens.h"

namespace hone::cli {

// --use_cpu, --devices, or what --device_map names for the full model.
at::Device device_of(const Options& options);

// Dtype, device and changes; applies --threads. Rows for new tokens need a tokenizer: room_for adds them.
model::LoadOptions load_options(const Options& options, const std::filesystem::path& folder);
text::NewTokens new_tokens(const Options& options);
// Settings of the embeddings of tokens that a run adds.
struct VocabularyConfig {
  bool grows = false;
  bool factory = false;             // LLaMA-Factory's multiple of 64 rows, else ms-swift's of 128
  std::string init_special_tokens;  // noise_init, desc_init, desc_init_w_noise
  bool has_descriptions = false;    // new_special_tokens_config is given
  Json described = Json::object();  // token to description
  uint64_t seed = 0;
};
VocabularyConfig vocabulary_config(const Options& options);
model::EmbeddingResize room_for(const text::Tokenizer& tokenizer, const VocabularyConfig& config);
// All of it: for commands that generate.
std::unique_ptr<model::CausalLM> load_model(const Options& options, const std::filesystem::path& folder,
                                            const text::Tokenizer& tokenizer);
// How NPUs compute: --attn_impl and --enable_npu_model_patch.
void choose_npu_kernels(const Options& options);

}  // namespace hone::cli
