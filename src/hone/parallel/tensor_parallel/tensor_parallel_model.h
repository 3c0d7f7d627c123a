// A model whose layers are cut over the processes of a tensor parallel group. It keeps the facts of every tensor: which part is
// here, who else holds it, and whether its gradient is complete.
#pragma once
#include <functional>
#include <memory>
#include <unordered_map>

#include "hone/model/causal_lm.h"
#include "hone/model/tensor_parallel/partition.h"
#include "hone/parallel/tensor_parallel/process_region.h"

namespace hone::parallel {

struct TensorParallelOptions {
  bool sequence_parallel = false;  // Megatron's: what is outside of cut layers is computed row by row, each by one rank
  at::Device device{at::kCPU};     // where the parts go
  std::string name = "tensor";     // of groups inside the group; no two groups of a run have the same
};

class TensorParallelModel {
 public:
  TensorParallelModel(model::CausalLM& model, ProcessGroup& group, const TensorParallelOptions& options);
  ~TensorParallelModel();
  TensorParallelModel(const TensorParallelModel&) = delete;

  // Of a parameter, the part that is here, and whether this rank speaks for it: of those that hold the same the first one does.
  const model::TensorSlice& slice_of(const Tensor& parameter) const { return parts_[place_of(parameter)].slice; }
  bool owns(const Tensor& parameter) const { return parts_[place_of(parameter)].is_owner; }

  struct Gradient {
    Tensor parameter, value;
  };
  // Once a step, when the gradients of all passes are there: those that are partial become sums.
  void sum_partial(const std::vector<Gradient>& gradients);
  // Their squared norm, every value of the whole model counted once.
  Tensor squared_norm(const std::vector<Gradient>& gradients);

  Tensor gathered(const Tensor& parameter) { return gathered_part(place_of(parameter)); }  // every rank of the group calls it
  void fill(const Tensor& parameter, const Tensor& whole) const;                           // its part of a whole tensor
  ProcessGroup& group() const { return group_; }

 private:
  friend class WholeShapes;
  friend class WholeParameters;
  struct Part {
    Tensor value;  // the model's own
    model::TensorSlice slice;
    model::TensorPartition partition;
    bool is_owner;
    Tensor kept = {};  // what `value` holds, while it only has the shape of the whole

    Tensor here() const { return kept.defined() ? kept : value.detach(); }
  };
  size_t place_of(const Tensor& parameter) const;
  void cut(const model::PartitionedTensor& tensor, at::Device device);
  bool is_partial(const Part& part) const;
  void sum_over(ProcessGroup& group, const TensorList& gradients);
  Tensor gathered_part(size_t place);

  model::CausalLM& model_;
  ProcessGroup& group_;
  bool sequence_parallel_;
  std::unique_ptr<ProcessGroup> replicas_;  // that hold the same key and value heads; null: each rank has its own
  std::unique_ptr<ProcessRegion> region_;
  std::vector<Part> parts_;
  std::unordered_map<const void*, size_t> places_;
};

// Cuts a model that was loaded and tuned whole, from outside. Throws UserError(usage) for what cannot be cut: sizes that do not
// divide, quantized layers, adapters other than LoRA.
std::unique_ptr<TensorParallelModel> apply_tensor_parallel(model::CausalLM& model, ProcessGroup& group,
                                                           const TensorParallelOptions& options);

// While it lives, every cut parameter has the shape of the whole and no values: for code that writes or reads files.
class WholeShapes {
 public:
  explicit WholeShapes(TensorParallelModel& model);
  ~WholeShapes();
  WholeShapes(const WholeShapes&) = delete;
  void show(Tensor parameter);  // gives it its whole values until the end; every rank of the group calls it

 private:
  TensorParallelModel& model_;
};

// Reads whole parameters in the order in which the first rank asks for them; the others of the group call follow().
class WholeParameters {
 public:
  explicit WholeParameters(TensorParallelModel& model) : model_(model), shapes_(model) {}
  ~WholeParameters();                          // tells the followers that it is over
  Tensor operator()(const Tensor& parameter);  // in host memory

  static void follow(TensorParallelModel& model);

 private:
  TensorParallelModel& model_;
  WholeShapes shapes_;
};

}  // namespace hone::parallel
