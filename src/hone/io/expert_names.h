// Names of expert weights in files. A model keeps those of all experts stacked under transformers' names,
// "….mlp.experts.gate_up_proj" [experts, 2 * inner, in] and "….mlp.experts.down_proj" [experts, in, inner]; most files store them
// one by one.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "hone/io/quantized/quantized_folder.h"

namespace hone::io {

// Their names in files: "….mlp.experts.3.gate_proj.weight", or Mixtral's "….block_sparse_moe.experts.3.w1.weight".
struct ExpertNames {
  std::string block = "mlp", gate = "gate_proj", up = "up_proj", down = "down_proj";
  bool transposed = false;  // stacked as in the model, with [in, 2 * inner] and [inner, in] for each expert (Qwen3-VL)
  bool operator==(const ExpertNames&) const = default;
};
inline const ExpertNames kMixtralNames{"block_sparse_moe", "w1", "w3", "w2"};
inline const ExpertNames kTransposedNames{.transposed = true};

// A tensor under the model's name and its sources: each expert's gate and up, or down; or one tensor under another name, or with
// its last two axes swapped.
struct StackedEntry {
  TensorEntry entry;
  std::vector<std::string> parts;
  bool transposed = false;
};

struct StackedFolder {
  std::vector<StackedEntry> entries;
  std::optional<ExpertNames> names;  // none: the files hold no experts one by one
};

// Throws UserError(bad_checkpoint) if an expert lacks a weight or has one of another shape.
StackedFolder stacked_entries(const EntryMap& entries, const std::string& folder);
// Stacked tensors that are stored transposed, detected by the hidden size; none if they are not.
StackedFolder transposed_entries(const EntryMap& entries, int64_t hidden_size);
Tensor stack_experts(const StackedEntry& entry, const ReadTensor& read);

// Tensors under the model's names as files hold them: one by one, each stacked one loaded once for all its parts, or transposed.
std::vector<TensorSource> unstack_experts(std::vector<TensorSource> tensors, const ExpertNames& names);

// One expert's layer in files that store experts one by one: weights in checkpoints, pairs in adapters.
struct SingleExpert {
  std::string block;  // "model.layers.0.mlp"
  int64_t expert;
  std::string kind;  // "gate_proj"
};

// Parses "model.layers.0.mlp.experts.3.gate_proj"; nothing for names of another form.
std::optional<SingleExpert> parse_single_expert(std::string_view module);

}  // namespace hone::io
