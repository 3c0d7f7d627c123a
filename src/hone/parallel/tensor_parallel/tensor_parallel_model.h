// A model whose layers are cut over the processes of a tensor parallel group, and whose experts may be dealt out over another
// one. It keeps the facts of every tensor: which part is here, who else holds it, and whether its gradient is complete.
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

class WholeShapes;

// The groups of one rank that hold a model together.
struct ModelGroups {
  ProcessGroup& world;
  ProcessGroup* tensor = nullptr;   // that layers are cut over; null: they are whole
  ProcessGroup* experts = nullptr;  // that experts are dealt out over and cut; null: no others have a part of them
  int64_t expert_cut = 0;  // how many neighbors of `experts` cut the same ones; 0: they are cut as layers are, and not dealt out
  bool is_first_copy = true;         // of the ranks that hold the same parts of layers
  bool is_first_expert_copy = true;  // of those that hold the same parts of experts
  bool copies_share_state = false;   // each copy has a shard of gradients and optimizer state, and speaks for that

  bool deals_experts() const { return expert_cut > 0; }
};

struct TensorParallelOptions {
  bool sequence_parallel = false;  // Megatron's: what is outside of cut layers is computed row by row, each by one rank
  at::Device device{at::kCPU};     // where the parts go
  std::string name = "tensor", expert_name = "expert";  // of groups inside the groups; no two of a run have the same
};

class TensorParallelModel {
 public:
  TensorParallelModel(model::CausalLM& model, const ModelGroups& groups, const TensorParallelOptions& options);
  ~TensorParallelModel();
  TensorParallelModel(const TensorParallelModel&) = delete;

  // Of a parameter, the part that is here; null: all of it.
  const model::TensorSlice* slice_of(const Tensor& parameter) const;
  // Whether this rank speaks for it, or for its shard of it: of those that hold the same the first one does.
  bool owns(const Tensor& parameter) const;
  bool is_dealt_out(const Tensor& parameter) const;  // an expert's, in the grid of experts
  // The ranks over which its gradient is a sum; null: it is complete on each.
  ProcessGroup* summed_over(const Tensor& parameter) const;

  struct Gradient {
    Tensor parameter, value;
  };
  // Once a step, when the gradients of all passes are there: those that are partial become sums.
  void sum_partial(const std::vector<Gradient>& gradients);
  // Their squared norm, every value of the whole model counted once.
  Tensor squared_norm(const std::vector<Gradient>& gradients);

  Tensor gathered(const Tensor& parameter);  // whole on the ranks of the first copy, all of which call it; undefined on others
  void fill(const Tensor& parameter, const Tensor& whole) const;  // its part of a whole tensor
  // Until told otherwise every process has all of the model, as far as its pipeline stage goes, and computes by itself: for
  // generation.
  void keep_gathered(bool hold);
  const ModelGroups& groups() const { return groups_; }

 private:
  friend class WholeShapes;
  friend class WholeParameters;
  struct Part {
    Tensor value;  // the model's own
    model::TensorSlice slice;
    model::TensorPartition partition;
    ProcessGroup* group;  // that holds all of it; null: this rank does
    model::PartitionRank place;
    bool is_dealt_out;
    Tensor* in_model;  // where the model keeps it
    Tensor kept = {};  // what `value` holds, while it only has the shape of the whole

    Tensor here() const { return kept.defined() ? kept : value.detach(); }
    bool is_owner() const { return place.rank % partition.replicas(place.cut) == 0; }
  };
  std::optional<size_t> place_of(const Tensor& parameter) const;
  bool is_cut(const std::optional<size_t>& place) const { return place && !parts_[*place].slice.is_whole(); }
  // Whether it is of the copy that files are written from.
  bool is_of_first_copy(const Part& part) const {
    return part.is_dealt_out ? groups_.is_first_expert_copy : groups_.is_first_copy;
  }
  void cut_layers(const TensorParallelOptions& options);
  void cut(const model::PartitionedTensor& tensor, at::Device device);
  struct Heads {
    int64_t queries, keys;
  };
  void set_heads(const std::vector<Heads>& of_blocks);
  void move_rest(at::Device device);
  bool is_partial(const Part& part) const;
  void sum_over(ProcessGroup& group, const TensorList& gradients);
  Tensor gathered_part(size_t place);

  model::CausalLM& model_;
  ModelGroups groups_;
  bool sequence_parallel_;
  std::unique_ptr<ProcessGroup> replicas_;         // that hold the same key and value heads; null: each rank has its own
  std::unique_ptr<ProcessGroup> expert_replicas_;  // that cut the same experts; null: each has its own
  std::unique_ptr<ProcessRegion> region_;
  std::unique_ptr<ExpertAllToAll> dispatcher_;
  std::unique_ptr<WholeShapes> gathered_;       // while all of the model is here
  std::vector<Heads> whole_heads_, cut_heads_;  // of each block; empty where layers are whole
  std::vector<Part> parts_;
  std::unordered_map<const void*, size_t> places_;
};

// Cuts a model that was loaded and tuned whole, from outside. Throws UserError(usage) for what cannot be cut: sizes that do not
// divide, quantized layers, adapters other than LoRA.
std::unique_ptr<TensorParallelModel> apply_tensor_parallel(model::CausalLM& model, const ModelGroups& groups,
                                                           const TensorParallelOptions& options);

// While it lives, every cut parameter has the shape of the whole and no values: for code that writes or reads files.
class WholeShapes {
 public:
  explicit WholeShapes(TensorParallelModel& model);
  ~WholeShapes();
  WholeShapes(const WholeShapes&) = delete;
  void show(Tensor parameter);  // gives it its whole values until the end; every rank calls it

 private:
  TensorParallelModel& model_;
};

// Reads whole parameters in the order in which the first rank asks for them; the others call follow().
class WholeParameters {
 public:
  explicit WholeParameters(TensorParallelModel& model);
  Tensor operator()(const Tensor& parameter) const;  // in host memory
  void follow() const { requests_.follow(); }

 private:
  TensorParallelModel& model_;
  WholeShapes shapes_;
  GatherRequests requests_;
};

}  // namespace hone::parallel
