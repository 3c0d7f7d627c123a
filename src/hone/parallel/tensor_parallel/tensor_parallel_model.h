// A model whose layers are sharded across a tensor parallel group, and whose experts may be distributed over another group. For
// every tensor it records the shard of this rank, the ranks that hold the same shard, and whether its gradient is complete.
#pragma once
#include <functional>
#include <memory>
#include <unordered_map>

#include "hone/model/causal_lm.h"
#include "hone/model/tensor_parallel/partition.h"
#include "hone/parallel/collectives/gather_requests.h"
#include "hone/parallel/expert_parallel/expert_all_to_all.h"
#include "hone/parallel/tensor_parallel/process_region.h"

namespace hone::parallel {

class UnshardedShapes;

// The process groups of this rank that together hold a model.
struct ModelGroups {
  ProcessGroup& world;
  ProcessGroup* tensor = nullptr;           // that layers are sharded across; null: not sharded
  ProcessGroup* experts = nullptr;          // of expert and expert tensor parallelism; null: this rank has all
  int64_t expert_tensor_parallel_size = 0;  // consecutive ranks of `experts` per expert; 0: experts are sharded like layers
  bool is_first_replica = true;             // of the ranks that hold the same shards of layers
  bool is_first_expert_replica = true;      // of those that hold the same shards of experts
  bool replicas_share_state = false;        // gradients and optimizer state are sharded across the copies

  bool has_expert_parallelism() const { return expert_tensor_parallel_size > 0; }
};

struct TensorParallelOptions {
  bool sequence_parallel = false;                       // Megatron's: ranks split the rows outside of sharded layers
  at::Device device{at::kCPU};                          // of the shards
  std::string name = "tensor", expert_name = "expert";  // of subgroups; unique in a run
};

class TensorParallelModel {
 public:
  TensorParallelModel(model::CausalLM& model, const ModelGroups& groups, const TensorParallelOptions& options);
  ~TensorParallelModel();
  TensorParallelModel(const TensorParallelModel&) = delete;

  // This rank's shard of a parameter; null: all of it.
  const model::TensorShard* shard_of(const Tensor& parameter) const;
  // Whether this rank owns it, or its shard of it: the first of the ranks that hold the same values does.
  bool owns(const Tensor& parameter) const;
  bool is_on_expert_mesh(const Tensor& parameter) const;  // an expert's, on the mesh of experts
  // The ranks over which its gradient must be summed; null: it is complete on each.
  ProcessGroup* summed_over(const Tensor& parameter) const;

  struct Gradient {
    Tensor parameter, value;
  };
  // Once per step, after the last backward pass: sums the partial gradients.
  void sum_partial(const std::vector<Gradient>& gradients);
  // Their squared norm, with every value of the full model counted once.
  Tensor squared_norm(const std::vector<Gradient>& gradients);

  Tensor gathered(
      const Tensor& parameter);  // unsharded on the ranks of the first copy, all of which call it; undefined on others
  void fill(const Tensor& parameter, const Tensor& whole) const;  // its shard of an unsharded tensor
  // Unsharded values that belong to a sharded parameter, such as its update; the ranks that hold its shards call it.
  Tensor gathered_values(const Tensor& parameter, const Tensor& shard);
  // While held, every process has the unsharded model of its pipeline stage and computes independently.
  void keep_gathered(bool hold);
  // While held, the tensor parallel ranks generate together, each with its shards: none splits rows, and experts on a separate
  // mesh are sharded like layers. Without tensor parallelism, as keep_gathered().
  void keep_for_generation(bool hold);
  const ModelGroups& groups() const { return groups_; }

 private:
  friend class UnshardedShapes;
  friend class UnshardedParameters;
  struct Shard {
    Tensor value;  // the model's own
    model::TensorShard extent;
    model::TensorPartition partition;
    ProcessGroup* group;  // that together holds the tensor; null: this rank does
    model::PartitionRank holder;
    bool is_on_expert_mesh;
    Tensor* in_model;                          // where the model keeps it
    Tensor kept = {};                          // the shard, while `value` has the unsharded shape, or the shard of another layout
    model::Linear* quantized_layer = nullptr;  // whose weight it is, of which `value` is only a shape …
    std::shared_ptr<const ops::QuantizedTensor> quantized_shard = {};  // … and this the shard

    Tensor here() const {
      if (quantized_shard) return quantized_shard->dequantize(value.scalar_type());
      return kept.defined() ? kept : value.detach();
    }
    bool is_owner() const { return holder.rank % partition.replicas(holder.shards) == 0; }
    bool is_elsewhere() const { return partition.first_rank_only && holder.rank > 0; }  // known here but not computed with
  };
  std::optional<size_t> index_of(const Tensor& parameter) const;
  bool is_sharded(const std::optional<size_t>& index) const { return index && !shards_[*index].extent.is_full(); }
  // Whether it is of the copy that files are written from.
  bool is_of_first_replica(const Shard& shard) const {
    return shard.is_on_expert_mesh ? groups_.is_first_expert_replica : groups_.is_first_replica;
  }
  void shard_layers(const TensorParallelOptions& options);
  void shard(const model::PartitionedTensor& tensor, at::Device device);
  struct Heads {
    int64_t queries, keys;
  };
  void set_heads(const std::vector<Heads>& of_blocks);
  void shard_quantized(at::Device device);
  void move_rest(at::Device device);
  bool is_partial(const Shard& shard) const;
  void sum_over(ProcessGroup& group, const TensorList& gradients);
  Tensor gathered_shard(size_t index);
  static Tensor assembled(const Shard& shard, const Tensor& here);
  void shard_like_layers(size_t index);

  model::CausalLM& model_;
  ModelGroups groups_;
  bool sequence_parallel_;
  std::unique_ptr<ProcessGroup> replicas_;         // that hold the same key and value heads; null: each rank has its own
  std::unique_ptr<ProcessGroup> expert_replicas_;  // that shard the same experts; null: each has its own
  std::unique_ptr<ProcessRegion> region_, generation_region_;  // the latter with all rows on every rank
  std::unique_ptr<ExpertAllToAll> dispatcher_;
  std::unique_ptr<UnshardedShapes> gathered_;  // while the model is gathered
  bool generates_ = false;
  std::vector<Heads> full_heads_, sharded_heads_;  // of each block; empty if layers are not sharded
  std::vector<Shard> shards_;
  std::unordered_map<const void*, size_t> indices_;
};

// Shards a model that was loaded and tuned in full. Throws UserError(usage) for what cannot be sharded: sizes that do not divide,
// adapters other than LoRA.
std::unique_ptr<TensorParallelModel> apply_tensor_parallel(model::CausalLM& model, const ModelGroups& groups,
                                                           const TensorParallelOptions& options);

// While it lives, every sharded parameter has its unsharded shape and no values: for code that writes or reads files.
class UnshardedShapes {
 public:
  explicit UnshardedShapes(TensorParallelModel& model);
  ~UnshardedShapes();
  UnshardedShapes(const UnshardedShapes&) = delete;
  void show(Tensor parameter);  // gathers its values until the end; every rank calls it

 private:
  TensorParallelModel& model_;
};

// Gathers unsharded parameters in the order of the first rank's requests; the others call follow().
class UnshardedParameters {
 public:
  explicit UnshardedParameters(TensorParallelModel& model);
  Tensor operator()(const Tensor& parameter) const;  // in host memory
  void follow() const { requests_.follow(); }

 private:
  TensorParallelModel& model_;
  UnshardedShapes shapes_;
  GatherRequests requests_;
};

}  // namespace hone::parallel
