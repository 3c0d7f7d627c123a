// Adapters on a loaded model, LoRA and those of methods/: attach, load, enable, disable, merge.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hone/io/peft.h"
#include "hone/model/causal_lm.h"
#include "hone/tuner/lora_ga.h"

namespace hone::tuner {

namespace fs = std::filesystem;

// A base weight that belongs to the adapter (modules_to_save, a trained bias): its place in the model and the original.
struct SavedModule {
  std::string name;
  Tensor* value;
  Tensor base;
};

struct AttachedAdapter {
  std::string name = "default";
  io::AdapterConfig config;
  std::vector<SavedModule> modules_to_save;
  io::NamedTensorList
      initial;  // the matrices PiSSA, OLoRA and LoRA-GA took out of the base, under the names of the file; else empty
};

struct AttachOptions {
  std::string name = "default";
  at::ScalarType dtype = at::kFloat;  // of the adapter's own tensors
  uint64_t seed = 42;
  // Only for LoRA-GA: gradients of the targets and their settings, or the folder of a run that started with them.
  BaseGradients gradients = {};
  LoraGaConfig gradient_start = {};
  std::optional<fs::path> started_in = std::nullopt;
};

// A new adapter. Throws UserError(usage) if a target matches no module of the model.
AttachedAdapter attach_adapter(model::CausalLM& model, const io::AdapterConfig& config, const AttachOptions& options);
// From files. Throws UserError(bad_checkpoint) if it does not match the model. The adapter is active and frozen.
AttachedAdapter load_adapter(model::CausalLM& model, const fs::path& folder, const AttachOptions& options = {});

void set_active(model::CausalLM& model,
                const std::vector<std::string>& adapters);  // others are switched off; unknown names throw
// Whether it is slower than LoRA per token and can be merged.
bool should_merge_for_inference(model::CausalLM& model, const AttachedAdapter& adapter);
// Adds the adapter's change to the base weights and removes it.
void merge_adapter(model::CausalLM& model, const AttachedAdapter& adapter);

}  // namespace hone::tuner
