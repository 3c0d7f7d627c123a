// A parsed adapter file: the low-rank pair of each layer and the tensors that replace base weights.
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "hone/io/peft.h"
#include "hone/ops/linear/lora_linear.h"

namespace hone::tuner {

struct LoraLayer {
  ops::LoraWeights
      weights;  // of an embedding: a [rank, words], b [width, rank]; of experts: a [experts * rank, in], b [out, rank * experts]
  bool embedding = false;
  int64_t experts = 0;  // of a stacked parameter; 0: of a module

  // The base weight it changes, by its path.
  std::string parameter(const std::string& path) const { return experts > 0 ? path : path + ".weight"; }
};

struct AdapterStateDict {
  std::map<std::string, LoraLayer> layers;        // by module path, of experts by the parameter's name
  std::map<std::string, Tensor> modules_to_save;  // by parameter name: modules_to_save, biases
};

// The parameter that a tensor of the file replaces: without the names of PEFT's wrappers.
std::string plain_name(std::string name);

// Throws UserError(bad_checkpoint) naming the tensor that does not match the config. `origin` is the folder, for messages.
AdapterStateDict parse_adapter_state_dict(const io::Adapter& adapter, const std::string& origin);

// Pairs that a gradient-based initialization (LoRA-GA) subtracted from the base, by module path, from the adapter's own folder;
// none for other initializations, nor if the folder lacks them, as PEFT's do.
std::map<std::string, LoraLayer> initial_pairs(const std::filesystem::path& folder, const io::AdapterConfig& config);

// Throws UserError(bad_checkpoint) if the pair does not match the shape of a base weight: the adapter belongs to another model.
void check_fits(const std::string& path, const LoraLayer& layer, at::IntArrayRef base_shape, const std::string& origin);

// The weight with the adapter's change, computed in float32 and rounded once to the weight's dtype.
Tensor merged_weight(const Tensor& weight, const LoraLayer& layer);

}  // namespace hone::tuner
