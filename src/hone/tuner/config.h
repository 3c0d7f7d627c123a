// Tuning config: which parameters are trained and how. One struct for both front ends.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/device/tensor.h"

namespace hone::tuner {

namespace fs = std::filesystem;

enum class TunerType { full, adapter, freeze };

// Full fine-tuning with frozen parts: everything trains, then the freeze_* fields freeze, then the trainable_* fields
// unfreeze.
struct FreezeParameters {
  std::vector<std::string> freeze, trainable;  // name prefixes
  std::string freeze_regex, trainable_regex;   // searched in the name
  double freeze_ratio = 0;                     // share of all parameters, counted from the embedding up
};

// LLaMA-Factory's freeze tuning: only some layers train.
struct FreezeLayers {
  int64_t trainable_layers = 2;                // the last n; the first |n| when negative
  std::vector<std::string> modules = {"all"};  // names inside a layer: self_attn, mlp …
  std::vector<std::string> extra_modules;      // names outside the layers: embed_tokens, norm, lm_head
};

// LoRA-GA's initialization: which singular directions of the gradient each matrix uses, and the scale of its rows.
struct LoraGaConfig {
  std::string direction = "ArB2r";                         // ArBr, A2rBr, ArB2r, random
  std::string scale = "stable";                            // gd, unit, stable, weights
  double gamma = 16;                                       // of stable
  int64_t batch_size = 2, batches = 2, max_length = 1024;  // of the rows whose gradient is taken
};

// The names of all experts' and all routers' parameters.
inline constexpr const char* kAllExperts = "all-experts";
inline constexpr const char* kAllRouters = "all-routers";

struct LoraConfig {
  int64_t rank = 8;
  double alpha = 32, dropout = 0.05;
  std::string bias = "none";                          // none, all, lora_only
  std::vector<std::string> targets = {"all-linear"};  // all-linear, all, all-embedding, or ends of module paths
  std::string target_regex;                           // instead of targets: matched against the whole path
  std::vector<std::string> target_parameters;         // in addition: ends of parameters' names, all-experts, all-routers
  std::vector<std::string> excluded;                  // exclude_modules
  std::vector<std::string> modules_to_save;           // trained whole; also all-embedding, all-norm, all-towers
  bool rslora = false, dora = false;
  std::string init = "true";    // true, false, gaussian, pissa, pissa_niter_N, olora, loftq, lora_ga
  LoraGaConfig gradient_start;  // of lora_ga
  bool convert_at_end = false;  // LLaMA-Factory's pissa_convert
  int64_t loftq_bits = 4, loftq_iterations = 1;
  std::optional<at::ScalarType> dtype;  // unset: float32
  std::vector<std::pair<std::string, int64_t>> rank_pattern;
  std::vector<std::pair<std::string, double>> alpha_pattern;
};

// Frozen parts of a multimodal model, by the defaults of ms-swift and LLaMA-Factory.
struct FrozenParts {
  bool llm = false, vit = true, aligner = true;  // the language model, the vision tower, its merger
};

struct TunerConfig {
  TunerType kind = TunerType::adapter;
  LoraConfig lora;                                // targets and modules_to_save are for every method
  std::string method = "LORA";                    // of Kind::adapter, as adapter_config.json spells it; see methods/
  Json method_fields = Json::object();            // its own, by their names there
  int64_t steps = 0;                              // of the run, for methods that follow a schedule
  FreezeParameters parameters;                    // Kind::full
  FrozenParts frozen_parts;                       // of models with a vision tower; not of modules that are named
  FreezeLayers layers;                            // Kind::freeze, and the count for use_llama_pro
  bool use_llama_pro = false;                     // only every n-th layer: the blocks that were inserted
  std::vector<fs::path> adapters;                 // all but the last are merged; the last is continued
  bool create_new_adapter = false;                // merge them all and start a fresh one
  std::optional<at::ScalarType> trainable_dtype;  // of base weights that train; unset: as loaded
  bool share_base_storage = false;                // what trains stays where it was loaded: sharding copies what it keeps
  std::optional<fs::path> resumed;  // the checkpoint this run resumes from: it stores an initialization that depends on gradients
  std::string base_model;           // written into adapter_config.json
  std::string peft_task = "CAUSAL_LM";  // the same; "" is none
  uint64_t seed = 42;
};

}  // namespace hone::tuner
