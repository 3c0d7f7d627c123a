// PEFT's adapter files: adapter_config.json and adapter_model.safetensors. Reads untrusted files and writes what PEFT loads.
// Files of ms-swift's own tuners are similar, in a subfolder.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hone/base/json.h"
#include "hone/io/safetensors.h"

namespace hone::io {

// The modules of a config: a list of path suffixes, or a regular expression over the full path.
struct ModulePattern {
  std::vector<std::string> names;
  std::string regex;
  bool empty() const { return names.empty() && regex.empty(); }
};

struct AdapterConfig {
  std::string peft_type = "LORA";      // peft_type, or the swift_type of ms-swift's own tuners
  bool is_swift_tuner = false;         // the latter
  Json extra_fields = Json::object();  // fields of a method other than LoRA, as the file has them; its tuner reads them
  std::string base_model;
  int64_t rank = 8;
  double alpha = 8, dropout = 0;
  std::string bias = "none";  // none, all, lora_only
  ModulePattern targets, excluded;
  std::vector<std::string> target_parameters;  // ends of the names of parameters that are adapted in addition to modules: weights
                                               // of all experts, stacked
  std::vector<std::string> modules_to_save;
  bool rslora = false, dora = false;
  std::string init = "true";  // init_lora_weights: true, false, gaussian, pissa, pissa_niter_N, olora, loftq, lora_ga …
  int64_t loftq_bits = 4, loftq_iterations = 1;  // loftq_config
  std::vector<std::pair<std::string, int64_t>> rank_pattern;
  std::vector<std::pair<std::string, double>> alpha_pattern;
  std::vector<int64_t> layers_to_transform;
  std::vector<std::string> layers_pattern;
  std::string task_type = "CAUSAL_LM";

  bool is_lora() const { return peft_type == "LORA"; }
  double scale(int64_t layer_rank, double layer_alpha) const;
};

Result<AdapterConfig> parse_adapter_config(std::string_view text);  // refuses LoRA variants that change the forward pass
Json to_json(const AdapterConfig& config);

using NamedTensorList = std::vector<std::pair<std::string, Tensor>>;

// Tensors under their Hugging Face paths: PEFT's prefix "base_model.model." is removed on reading and added on writing. Tensors
// that belong to no module keep their full name, "base_model.vera_A".
struct Adapter {
  AdapterConfig config;
  NamedTensorList tensors;
};

// The folder of an adapter's files: the folder itself, or its default/, where ms-swift stores its own tuners; none if there is no
// adapter.
std::optional<fs::path> adapter_files_in(const fs::path& folder);

// Both throw UserError(bad_checkpoint) naming the file.
AdapterConfig read_adapter_config(const fs::path& folder);
Adapter read_adapter(const fs::path& folder);
void write_adapter(const fs::path& folder, const Adapter& adapter);

}  // namespace hone::io
