// adapter_config.json, as PEFT writes it, and that of ms-swift's own tuners. Reads untrusted files.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "hone/base/json.h"

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

}  // namespace hone::io
