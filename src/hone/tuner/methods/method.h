// A tuning method beside LoRA: how its adapter_config.json and its layers come to be.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hone/io/peft.h"
#include "hone/model/linear_tuner.h"

namespace hone::tuner {

struct LayerShape {
  std::string path;  // of the linear layer
  std::string
      owner;  // under which its tensors are in the file: the same path, but for methods that name what is around the layer
  int64_t in, out;
};

using LinearTuners = std::vector<std::shared_ptr<model::LinearTuner>>;  // parallel to the layers

struct PeftMethod {
  std::string_view type;  // in adapter_config.json
  std::string_view name;  // on the command line
  // With first values, float32 on the host. Throws UserError(usage) for a field that does not fit the layers.
  LinearTuners (*make)(const std::vector<LayerShape>& layers, const io::AdapterConfig& config, uint64_t seed);
  bool merges = true;  // false: no plain weight computes the same
  // Where a layer's tensors are in the file; empty: the method has no place there. Null: under the layer's own path.
  std::string (*owner)(const std::string& path) = nullptr;
  // Adds to a fresh adapter's config what the model and the length of the run decide.
  void (*complete)(io::AdapterConfig& config, const std::vector<LayerShape>& layers, int64_t steps) = nullptr;
  // Before layers are made for these tensors: corrects a config that says other than they do.
  void (*follow_tensors)(io::AdapterConfig& config, const io::NamedTensorList& tensors) = nullptr;
};

// Throws UserError naming the methods there are.
const PeftMethod& method_of_type(std::string_view type);
const PeftMethod* method_called(std::string_view name);  // null: none of that name
std::vector<std::string_view> method_names();

}  // namespace hone::tuner
