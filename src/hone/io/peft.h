// PEFT's LoRA files: adapter_config.json and adapter_model.safetensors, read from anyone and written so that PEFT loads them.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "hone/base/json.h"
#include "hone/io/safetensors.h"

namespace hone::io {

// Which modules a config names: a list of path ends, or one regular expression over the whole path.
struct ModulePattern {
  std::vector<std::string> names;
  std::string regex;
  bool empty() const { return names.empty() && regex.empty(); }
};

struct AdapterConfig {
  std::string base_model;
  int64_t rank = 8;
  double alpha = 8, dropout = 0;
  std::string bias = "none";  // none, all, lora_only
  ModulePattern targets, excluded;
  std::vector<std::string> modules_to_save;
  bool rslora = false, dora = false;
  std::string init = "true";  // init_lora_weights: true, false, gaussian, pissa, pissa_niter_N, olora, loftq, lora_ga …
  int64_t loftq_bits = 4, loftq_iterations = 1;  // loftq_config
  std::vector<std::pair<std::string, int64_t>> rank_pattern;
  std::vector<std::pair<std::string, double>> alpha_pattern;
  std::vector<int64_t> layers_to_transform;
  std::vector<std::string> layers_pattern;
  std::string task_type = "CAUSAL_LM";

  double scale(int64_t layer_rank, double layer_alpha) const;
};

Result<AdapterConfig> parse_adapter_config(
    std::string_view text);  // refuses other methods and LoRA variants that change the forward pass
Json to_json(const AdapterConfig& config);

using NamedTensorList = std::vector<std::pair<std::string, Tensor>>;

// Tensors under their Hugging Face paths: PEFT's prefix "base_model.model." is taken off on reading and put on in writing.
struct Adapter {
  AdapterConfig config;
  NamedTensorList tensors;
};

// Both throw UserError(bad_checkpoint) naming the file.
AdapterConfig read_adapter_config(const fs::path& folder);
Adapter read_adapter(const fs::path& folder);
void write_adapter(const fs::path& folder, const Adapter& adapter);

}  // namespace hone::io
