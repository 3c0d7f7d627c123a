// Full matrices of tensor parallel models, for optimizers whose update of an element depends on the rest of its matrix.
#include <unordered_map>

#include "hone/train/loaded_model.h"

namespace hone::train {

optim::MatrixShards matrix_shards(const SessionModels& models, const std::vector<optim::ParameterGroup>& working) {
  struct Matrix {
    parallel::TensorParallelModel* model;
    Tensor parameter;
  };
  auto matrices = std::make_shared<std::unordered_map<std::string, Matrix>>();
  for (const auto* loaded : models.trained())
    for (const auto& group : working)
      for (size_t i = 0; loaded->tensor && i < group.parameters.size(); ++i)
        if (loaded->tensor->slice_of(group.parameters[i]))
          matrices->insert({group.names[i], {loaded->tensor.get(), group.parameters[i]}});
  if (matrices->empty()) return {};
  return {[matrices](const std::string& name, const Tensor& shard) {
            const auto found = matrices->find(name);
            return found == matrices->end() ? shard : found->second.model->gathered_values(found->second.parameter, shard);
          },
          [matrices](const std::string& name, const Tensor& whole) {
            const auto found = matrices->find(name);
            return found == matrices->end() ? whole : found->second.model->slice_of(found->second.parameter)->extract(whole);
          }};
}

}  // namespace hone::train
