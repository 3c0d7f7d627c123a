// The safetensors of a Hugging Face folder as one set of names: a single file, or shards and their index. Quantized weights
// (quantization_config) are dequantized on reading; experts stored one by one, or transposed, appear stacked; weights of vision
// models appear under the names of their modules (vision_names.h).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "hone/io/expert_names.h"
#include "hone/io/quantized/quantized_folder.h"
#include "hone/io/safetensors.h"
#include "hone/io/vision_names.h"

namespace hone::io {

class WeightFolder {
 public:
  // Opens `stem`.safetensors or `stem`.safetensors.index.json with its shards. Throws UserError(bad_checkpoint).
  explicit WeightFolder(const fs::path& folder, const std::string& stem = "model");
  WeightFolder(const WeightFolder&) = delete;  // entries point into files

  const std::map<std::string, const TensorEntry*>& entries() const { return entries_; }
  const TensorEntry* find(const std::string& name) const;
  Tensor tensor(const std::string& name) const;
  size_t bytes() const;
  // config.json's quant_method; empty if no weights are quantized.
  const std::string& quant_method() const { return quant_method_; }
  // The folder's names of experts that it stores one by one; none if it has none.
  const std::optional<ExpertNames>& expert_names() const { return expert_names_; }
  // The folder's spelling of names that are shown under the names of modules.
  const StoredNames& stored_names() const { return names_; }

 private:
  std::vector<SafetensorsFile> files_;
  std::map<std::string, const TensorEntry*> entries_;
  std::map<std::string, size_t> file_of_;
  std::map<std::string, QuantizedEntry> quantized_;
  std::string quant_method_;
  std::map<std::string, StackedEntry> stacked_;
  std::optional<ExpertNames> expert_names_;
  StoredNames names_;
  std::map<std::string, std::string> renamed_;  // of tensors that are shown under another name: the stored one

  void show_module_names(const fs::path& folder, const Json& config);
  void index_quantized(const fs::path& folder, const Json& config);
  void index_experts(const fs::path& folder, const Json& config);
  Tensor stored(const std::string& name) const;  // as a file has it, or dequantized
};

// "5GB" and "500MB" are powers of ten as in transformers, "1GiB" of two. Throws UserError(usage).
size_t parse_size(std::string_view text);

// Writes `stem`.safetensors, or shards of at most `max_shard_bytes` and their index, and removes shards of an earlier save.
void write_sharded(const fs::path& folder, const std::vector<TensorSource>& tensors, size_t max_shard_bytes = 5'000'000'000,
                   const std::string& stem = "model");

}  // namespace hone::io
