// A tuning method other than LoRA: how its adapter_config.json and its layers are created.
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
  // Initialized, float32 on the host. Throws UserError(usage) for a field that does not match the layers.
  LinearTuners (*make)(const std::vector<LayerShape>& layers, const io::AdapterConfig& config, uint64_t seed);
  bool merges = true;  // false: no plain weight computes the same
  // The path of a layer's tensors in the file; empty: the method does not apply there. Null: the layer's own path.
  std::string (*owner)(const std::string& path) = nullptr;
  // Completes a new adapter's config with values that depend on the model and the duration of the run.
  void (*complete)(io::AdapterConfig& config, const std::vector<LayerShape>& layers, int64_t steps) = nullptr;
  // Before layers are created for these tensors: corrects a config that contradicts them.
  void (*follow_tensors)(io::AdapterConfig& config, const io::NamedTensorList& tensors) = nullptr;
};

// Throws UserError listing the available methods.
const PeftMethod& method_of_type(std::string_view type);
const PeftMethod* method_called(std::string_view name);  // null: none of that name
std::vector<std::string_view> method_names();

}  // namespace hone::tuner
