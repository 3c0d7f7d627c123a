// From options to the devices of a model and its data parallel replicas.
#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include "hone/cli/options.h"
#include "hone/model/causal_lm.h"
#include "hone/text/tokenizer.h"

namespace hone::cli {

// --device_map auto, balanced, balanced_low_0, sequential or an object of names: modules that are not on `first`. Empty: all
// are.
model::DeviceMap placement_of(const Options& options, const std::filesystem::path& folder, at::Device first);

// --vllm_data_parallel_size, or its value in vllm_engine_kwargs.
int64_t data_parallel_size(const Options& options);

// How the replicas of a model use the available devices.
struct ParallelSizes {
  size_t dp_size = 1, pp_size = 1,
         tp_size = 1;               // copies; devices that the blocks, or the slices of every block, of a replica are spread over
  std::vector<at::Device> devices;  // all that may be used; none where every size is 1
  bool on_cpu = false;

  bool whole_or_on_cpu() const { return on_cpu || dp_size * pp_size * tp_size == 1; }
  std::vector<at::Device> devices_of(size_t copy) const;
};
// --vllm_data_parallel_size, --vllm_pipeline_parallel_size, --vllm_tensor_parallel_size. Throws UserError(usage) when more
// devices are requested than there are.
ParallelSizes engine_layout(const Options& options);

// The replicas of the model. On the CPU all of them share one model.
class ModelReplicas {
 public:
  ModelReplicas(const Options& options, const std::filesystem::path& folder, const text::Tokenizer& tokenizer);

  model::CausalLM& first() const { return *models_.front(); }
  const std::vector<std::unique_ptr<model::CausalLM>>& models() const { return models_; }  // each once
  void apply_tensor_parallel();                    // tensor parallel sharding, after adapters are merged
  std::vector<model::CausalLM*> replicas() const;  // as the engine takes them

 private:
  ParallelSizes layout_;
  std::vector<std::unique_ptr<model::CausalLM>> models_;
};

}  // namespace hone::cli
