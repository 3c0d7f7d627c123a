// A model of which this process has the blocks of one pipeline stage, or of several. Of the others it knows names and shapes: its
// tree is that of the whole model, and a parameter that is elsewhere is a placeholder.
#pragma once
#include <memory>
#include <unordered_map>

#include "hone/model/causal_lm.h"
#include "hone/model/pipelined_blocks.h"
#include "hone/parallel/collectives/process_group.h"
#include "hone/parallel/pipeline/stage_layout.h"

namespace hone::parallel {

// The lines between the ranks of a pipeline. Rows and gradients have their own, and so has what goes from the last rank to the
// first: no message waits behind one that goes the other way.
struct StageGroups {
  ProcessGroup* stages = nullptr;     // all ranks in order: rows to the next one, and whatever they tell each other
  ProcessGroup* gradients = nullptr;  // back to the one before
  ProcessGroup* around = nullptr;     // rows from the last rank to the first; null: every rank has one stage
  ProcessGroup* gradients_around = nullptr;
  ProcessGroup* ends = nullptr;  // the first rank and the last, who share the embedding of a tied model; null on others
};

class PipelineModel final : public model::PipelinedBlocks {
 public:
  // `rows_over`: ranks that rows between blocks are dealt out over (Megatron's sequence parallelism).
  PipelineModel(model::CausalLM& model, StageLayout layout, const StageGroups& groups, at::Device device, int64_t rows_over);
  ~PipelineModel() override;
  PipelineModel(const PipelineModel&) = delete;

  int rank() const { return groups_.stages->rank(); }
  bool is_first() const { return rank() == 0; }
  bool is_last() const override { return rank() == layout_.ranks() - 1; }
  const StageLayout& layout() const { return layout_; }
  int stage(int chunk) const { return chunk * layout_.ranks() + rank(); }
  bool is_last_stage(int stage) const { return stage == layout_.stages() - 1; }
  ProcessGroup& stages() const { return *groups_.stages; }
  const StageGroups& groups() const { return groups_; }

  // The stage that speaks for a parameter, and whether it is here: a tied embedding is also on the last rank.
  int stage_of(const Tensor& parameter) const;
  bool owns(const Tensor& parameter) const { return layout_.rank_of(stage_of(parameter)) == rank(); }
  bool holds(const Tensor& parameter) const { return owns(parameter) || is_shared(parameter); }

  // What a stage hands to the next: rows, and of earlier blocks router logits [blocks, T, experts] where they are asked for.
  using Message = TensorList;
  struct StageOutput {
    Tensor x_th;
    TensorList router_logits;  // of all blocks so far

    Message message() const;
  };
  StageOutput run_stage(int stage, const model::ForwardInput& input, const Message& received, bool router_logits);
  // Of so many tokens. Every stage has the same rows, so that no shape has to be sent.
  Message receive(int stage, int64_t tokens, bool router_logits);
  using Sending = std::vector<std::unique_ptr<Work>>;
  Sending send(int stage, const Message& message);
  TensorList receive_gradients(int stage, const TensorList& outputs);
  Sending send_gradients(int stage, const TensorList& gradients);

  Tensor run(model::CausalLM& model, const model::ForwardInput& input, TensorList* router_logits) override;
  void broadcast_from_last(Tensor& values) override;

  // The first and the last stage, of a tied embedding; null: no other stage computes with the parameter.
  ProcessGroup* summed_over(const Tensor& parameter) const;
  // Once a step: the gradient of a tied embedding becomes the sum over both ends, each of which updates its own copy. `updated`
  // is what the optimizer reads the gradient of.
  void sum_shared(const Tensor& parameter, Tensor updated) const;
  // `values` of the rank that owns a parameter, of so many elements, on the first rank in host memory; every rank calls it.
  Tensor brought_to_first(const Tensor& parameter, const Tensor& values, at::IntArrayRef shape) const;
  // Until told otherwise every rank has all blocks, as far as they are not cut, and computes by itself: for generation.
  void keep_gathered(bool hold);

 private:
  bool is_shared(const Tensor& parameter) const;
  Sending send_all(ProcessGroup& group, const TensorList& values, int to) const;

  model::CausalLM& model_;
  StageLayout layout_;
  StageGroups groups_;
  int64_t rows_over_;
  std::unordered_map<const void*, int> stage_of_;
  std::vector<Tensor> parameters_;                   // of all stages, in the order of a forward pass
  std::vector<std::pair<Tensor, Tensor>> gathered_;  // what is here for a while, and what stands for it otherwise
  bool is_gathered_ = false;
};

// Keeps this rank's stages of a model that was loaded and tuned whole, from outside; what it keeps goes to `device`. Throws
// UserError(usage) for models that cannot be taken apart.
std::unique_ptr<PipelineModel> apply_pipeline_parallel(model::CausalLM& model, StageLayout layout, const StageGroups& groups,
                                                       at::Device device, int64_t rows_over);

void wait_for(PipelineModel::Sending& sending);  // and forgets them

}  // namespace hone::parallel
