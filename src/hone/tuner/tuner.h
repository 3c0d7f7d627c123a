// Prepares a loaded model for training: selects what trains, attaches adapters, and saves the result.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hone/model/causal_lm.h"
#include "hone/tuner/adapter.h"
#include "hone/tuner/config.h"

namespace hone::tuner {

struct Tuned {
  std::vector<std::pair<std::string, Tensor>> trainable;  // leaves with requires_grad, under the names of the files
  std::optional<AttachedAdapter> adapter;                 // LoRA only
  int64_t trainable_count = 0, total_count = 0;           // elements; the total includes adapters

  std::string summary() const;  // "trainable parameters: 1,081,344 of 495,114,112 (0.2184%)"
};

void validate(const TunerConfig& config);  // throws ConfigError
// Throws UserError(usage) if the config names modules that the model does not have. Reads names alone: a skeleton will do.
void require_modules(model::CausalLM& model, const TunerConfig& config);

// Everything not selected is frozen. Trained weights are copied out of the mapped file; tied weights stay tied. `gradients` is
// called only by gradient-based initializations (LoRA-GA).
Tuned apply_tuner(model::CausalLM& model, const TunerConfig& config, const GradientSource& gradients = {});

// The content of adapter_config.json for a new LoRA: short names such as all-linear become module names of this model.
io::AdapterConfig adapter_config(model::CausalLM& model, const TunerConfig& config);

// The names in modules_to_save, with short ones such as all-towers as module names of this model.
std::vector<std::string> saved_modules(model::CausalLM& model, const TunerConfig& config);

// Saves what is trained as PEFT's or Hugging Face's files; the caller writes config, tokenizer and the like. Adapters whose
// initialization changed the base (PiSSA, OLoRA, LoRA-GA) include a plain LoRA form in converted/default. `read` fetches a weight
// that is not in this process's memory when it is written.
using ReadWeight = std::function<Tensor(const Tensor& parameter)>;
void save_trained(model::CausalLM& model, const Tuned& tuned, const fs::path& folder, size_t max_shard_bytes = 5'000'000'000,
                  const ReadWeight& read = {});
// LLaMA-Factory's three folders of a converted PiSSA run: pissa_init, pissa_backup (as trained) and pissa_converted (plain LoRA).
void save_pissa_conversion(model::CausalLM& model, const AttachedAdapter& adapter, const fs::path& folder);
// Loads files written by save_trained into the model, for a resume. Throws UserError(bad_checkpoint). `copy` replaces the plain
// copy if weights are distributed.
using CopyWeight = std::function<void(const Tensor& parameter, const Tensor& values)>;
void load_trained(model::CausalLM& model, const Tuned& tuned, const fs::path& folder, const CopyWeight& copy = {});

}  // namespace hone::tuner
