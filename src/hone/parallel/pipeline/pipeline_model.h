// A model of which this process has the blocks of one or several pipeline stages. Its module tree is that of the full model;
// parameters of other stages are placeholders with name and shape.
#pragma once
#include <memory>
#include <unordered_map>

#include "hone/model/causal_lm.h"
#include "hone/model/pipelined_blocks.h"
#include "hone/parallel/collectives/process_group.h"
#include "hone/parallel/pipeline/stage_layout.h"

namespace hone::parallel {

// Process groups between the ranks of a pipeline. Hidden states and gradients have separate groups, and so do messages from the
// last rank to the first, so that no message waits for one in the other direction.
struct StageGroups {
  ProcessGroup* stages = nullptr;     // all ranks in order: hidden states to the next rank, and other collectives
  ProcessGroup* gradients = nullptr;  // to the previous rank
  ProcessGroup* around = nullptr;     // hidden states from the last rank to the first; null: one stage per rank
  ProcessGroup* gradients_around = nullptr;
  ProcessGroup* ends = nullptr;  // the first and the last rank, which share a tied embedding; null on others
};

class PipelineModel final : public model::PipelinedBlocks {
 public:
  // `sequence_shards`: ranks that split the rows between blocks (Megatron's sequence parallelism).
  PipelineModel(model::CausalLM& model, StageLayout layout, const StageGroups& groups, at::Device device,
                int64_t sequence_shards);
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

  // The stage that owns a parameter, and whether this rank holds it: a tied embedding is also on the last rank.
  int stage_of(const Tensor& parameter) const;
  bool owns(const Tensor& parameter) const { return layout_.rank_of(stage_of(parameter)) == rank(); }
  bool holds(const Tensor& parameter) const { return owns(parameter) || is_shared(parameter); }

  // The message of a stage to the next one: hidden states, on request the router logits of earlier blocks [blocks, T, experts],
  // and features of images that later blocks add [blocks, N, hidden]. The towers are on the first stage.
  using Message = TensorList;
  struct StageOutput {
    Tensor x_th;
    TensorList router_logits;  // of all blocks so far
    TensorList deepstack;      // of the blocks after this stage

    Message message() const;
  };
  StageOutput run_stage(int stage, const model::ForwardInput& input, const Message& received, bool router_logits);
  // Every stage has the same rows, so that no shape has to be sent.
  Message receive(int stage, const model::ForwardInput& input, bool router_logits);
  using Sending = std::vector<std::unique_ptr<Work>>;
  Sending send(int stage, const Message& message);
  TensorList receive_gradients(int stage, const TensorList& outputs);
  Sending send_gradients(int stage, const TensorList& gradients);

  Tensor run(model::CausalLM& model, const model::ForwardInput& input, TensorList* router_logits) override;
  void broadcast_from_last(Tensor& values) override;

  // The first and the last stage for a tied embedding; null: no other stage uses the parameter.
  ProcessGroup* summed_over(const Tensor& parameter) const;
  // Once per step: sums the gradient of a tied embedding over the first and the last stage, each of which updates its own copy.
  // `updated` is the tensor whose gradient the optimizer reads.
  void sum_shared(const Tensor& parameter, Tensor updated) const;
  // Sends `values` from the rank that owns a parameter to the first rank, in host memory; every rank calls it.
  Tensor brought_to_first(const Tensor& parameter, const Tensor& values, at::IntArrayRef shape) const;
  // While held, every rank has all blocks, up to tensor parallel sharding, and computes independently: for generation.
  void keep_gathered(bool hold);

 private:
  int64_t routers_before(int stage) const;
  int64_t deepstack_from(int64_t block, const model::ForwardInput& input) const;  // features that it and later blocks add
  model::ForwardInput with_received_features(int stage, const model::ForwardInput& input, const Message& received) const;
  bool is_shared(const Tensor& parameter) const;
  Tensor values_of(const Tensor& parameter) const;
  Sending send_all(ProcessGroup& group, const TensorList& values, int to) const;

  model::CausalLM& model_;
  StageLayout layout_;
  StageGroups groups_;
  int64_t sequence_shards_;
  std::unordered_map<const void*, int> stage_of_;
  std::unordered_map<const void*, const model::Linear*> quantized_;  // by weight: layers here whose base is quantized
  std::vector<Tensor> parameters_;                                   // of all stages, in the order of a forward pass
  std::vector<std::pair<Tensor, Tensor>> gathered_;                  // gathered parameters, and their placeholders
  bool is_gathered_ = false;
};

// Keeps this rank's stages of a model that was loaded and tuned in full, and moves them to `device`. Throws UserError(usage) for
// unsupported models.
std::unique_ptr<PipelineModel> apply_pipeline_parallel(model::CausalLM& model, StageLayout layout, const StageGroups& groups,
                                                       at::Device device, int64_t sequence_shards);

void wait_for(PipelineModel::Sending& sending);  // and clears it

}  // namespace hone::parallel
