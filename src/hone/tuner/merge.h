// Base folder + adapters = a plain Hugging Face folder. Weights are merged from file to file one tensor at a time: the model is
// never in memory.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "hone/device/tensor.h"
#include "hone/model/model_overrides.h"

namespace hone::tuner {

namespace fs = std::filesystem;

struct MergeOptions {
  std::optional<at::ScalarType> dtype;  // unset: each tensor keeps the base's
  size_t max_shard_bytes = 5'000'000'000;
  bool exist_ok = false;          // write into a folder that is already there
  model::ModelOverrides changes;  // of the base: config.json, and rows of the vocabulary, which start as the mean of the others
  std::function<void(const fs::path&)> finish;  // adds files before the folder appears
};

struct MergeReport {
  size_t tensors = 0, changed = 0, bytes = 0;
};

// Several adapters are merged in the given order. The output is written atomically. Throws UserError if an adapter does not match
// the base, naming the tensor, or if the output exists.
MergeReport merge_adapters(const fs::path& base, const std::vector<fs::path>& adapters, const fs::path& output,
                           const MergeOptions& options = {});

}  // namespace hone::tuner
