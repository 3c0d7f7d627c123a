// Several parameters, flattened and concatenated in one buffer of which each rank keeps an equal shard. The model keeps using its
// own tensors: they are views of the unsharded buffer, whose memory exists only while it is gathered.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hone/parallel/collectives/process_group.h"

namespace hone::parallel {

// The shard of a parameter on this rank: elements [begin, begin + values.numel()) of it, flattened. The optimizer updates
// `values`.
struct ParameterShard {
  size_t member = 0;
  int64_t begin = 0;
  Tensor values;
};

struct FlatParameterConfig {
  bool keep_unsharded = false;                // the buffer stays unsharded: only gradients and optimizer are sharded
  bool trained = true;                        // gradients will be reduced
  at::ScalarType type = at::kFloat;           // of the buffer
  at::ScalarType reduce_type = at::kFloat;    // of gradients in the reduction
  at::ScalarType gradient_type = at::kFloat;  // of the sums that the optimizer reads
  at::Device device{at::kCPU};                // where the model computes
  bool offload_parameters = false;            // shards are in host memory
  bool offload_optimizer = false;             // optimizer state is in host memory
};

class FlatParameter {
 public:
  // Replaces the members by views; their values are copied into the buffer.
  FlatParameter(TensorList members, ProcessGroup& shards, ProcessGroup* replicas, const FlatParameterConfig& config);

  void start_gather();
  void finish_gather();
  void release();  // frees the unsharded buffer; the members must not be read until the next gather
  bool gathered() const { return config_.keep_unsharded || gathered_; }

  bool trained() const { return config_.trained; }
  bool requires_grad_now() const;  // LISA freezes layers for some steps: without a reduction their shards have no gradient, and
                                   // the optimizer skips them
  void start_reduce();             // reads the members' gradients; a missing one counts as zero
  void finish_reduce();            // adds the sum over all ranks to the gradients of the shards
  void sync_after_step();          // after an update: copies the updated values to the shard, and all-gathers a resident buffer

  const TensorList& members() const { return members_; }
  ProcessGroup& group() const { return shards_; }
  // The elements of a member, flattened, that a rank keeps: [first, second), none if they are equal.
  std::pair<int64_t, int64_t> elements_of(size_t member, int rank) const;
  std::vector<ParameterShard>& shards() { return parameter_shards_; }
  void fill(size_t member, const Tensor& values);  // sets this rank's shard of a member, and all of a resident buffer
  void reload_shard();                             // from a resident or gathered buffer that others wrote to
  int64_t bytes_held() const { return static_cast<int64_t>(shard_.nbytes()) * (gathered() ? shards_.size() : 1); }

 private:
  Tensor view_of(size_t member) const;
  void allocate();
  void make_shards();

  FlatParameterConfig config_;
  ProcessGroup& shards_;
  ProcessGroup* replicas_;  // groups that hold the same shards (hybrid sharding); null when there is one
  TensorList members_;
  std::vector<int64_t> offsets_;
  int64_t length_ = 0, part_ = 0;               // of the unsharded buffer, of one shard
  Tensor unsharded_, shard_, optimizer_shard_;  // home_: where the optimizer works, the shard itself unless it is elsewhere
  std::vector<ParameterShard> parameter_shards_;
  bool gathered_ = false;
  std::unique_ptr<Work> gathering_, reducing_;
  Tensor sending_, received_, gradient_;
};

}  // namespace hone::parallel
