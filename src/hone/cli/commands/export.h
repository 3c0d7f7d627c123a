// export and merge-lora: a base model and adapters become one model folder, with files for other programs.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hone/device/tensor.h"
#include "hone/model/model_overrides.h"

namespace hone::cli {

struct ExportOptions {
  std::filesystem::path model;                  // local folder
  std::vector<std::filesystem::path> adapters;  // merged in this order
  std::filesystem::path output_dir;             // empty: "<last adapter>-merged"
  bool merge_lora = true;
  std::optional<at::ScalarType> torch_dtype;  // unset: the base's
  size_t max_shard_bytes = 5'000'000'000;
  bool exist_ok = false;
  model::ModelOverrides changes;                             // of the base
  std::function<void(const std::filesystem::path&)> finish;  // adds files to the folder before it appears
  bool for_ollama = false;                                   // `finish` writes a Modelfile for `ollama create`
  std::string next = "hone infer --model";                   // the suggested next command, without the folder
};

// Returns the folder that was written.
std::filesystem::path export_model(const ExportOptions& options);
// The adapter alone in PEFT's format, without the state of its run; by default to "<adapter>-peft".
std::filesystem::path export_adapter(const ExportOptions& options);

}  // namespace hone::cli
