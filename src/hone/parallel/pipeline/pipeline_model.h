// A model of which this process has the blocks of one pipeline stage. Of the others it knows names and shapes: its tree is that
// of the whole model, and a parameter that is elsewhere is a placeholder.
#pragma once
#include <memory>
#include <unordered_map>

#include "hone/model/causal_lm.h"
#include "hone/parallel/collectives/process_group.h"
#include "hone/parallel/pipeline/stage_layout.h"

namespace hone::parallel {

class PipelineModel {
 public:
  // `stages` joins the processes that each have a stage, in order; the ends of a tied model share its embedding through `ends`
  // (null where this stage is neither).
  PipelineModel(model::CausalLM& model, StageLayout layout, ProcessGroup& stages, ProcessGroup* ends, at::Device device);

  int stage() const { return stages_.rank(); }
  bool is_first() const { return stage() == 0; }
  bool is_last() const { return stage() == layout_.stages() - 1; }
  int64_t begin() const { return layout_.begin(stage()); }
  int64_t end() const { return layout_.end(stage()); }
  const StageLayout& layout() const { return layout_; }
  ProcessGroup& stages() const { return stages_; }

  // The stage that speaks for a parameter, and whether it is here: a tied embedding is also on the last stage.
  int stage_of(const Tensor& parameter) const;
  bool owns(const Tensor& parameter) const { return stage_of(parameter) == stage(); }
  bool holds(const Tensor& parameter) const { return owns(parameter) || is_shared(parameter); }

  // The first and the last stage, of a tied embedding; null: no other stage computes with the parameter.
  ProcessGroup* summed_over(const Tensor& parameter) const;
  // Once a step: the gradient of a tied embedding becomes the sum over both ends, each of which updates its own copy. `updated`
  // is what the optimizer reads the gradient of.
  void sum_shared(const Tensor& parameter, Tensor updated) const;
  // `values` of the stage that owns a parameter, of so many elements, on the first stage in host memory; every stage calls it.
  Tensor brought_to_first(const Tensor& parameter, const Tensor& values, at::IntArrayRef shape) const;

 private:
  bool is_shared(const Tensor& parameter) const;

  model::CausalLM& model_;
  StageLayout layout_;
  ProcessGroup& stages_;
  ProcessGroup* ends_;
  std::unordered_map<const void*, int> stage_of_;
};

// Keeps one stage of a model that was loaded and tuned whole, from outside; what it keeps goes to `device`. Throws
// UserError(usage) for models that cannot be taken apart.
std::unique_ptr<PipelineModel> apply_pipeline_parallel(model::CausalLM& model, StageLayout layout, ProcessGroup& stages,
                                                       ProcessGroup* ends, at::Device device);

}  // namespace hone::parallel
