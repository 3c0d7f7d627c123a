// Sequence parallelism: each rank holds some positions of a sequence. Attention trades positions for heads (Ulysses) as far as
// the number of heads allows, and uses ring attention for the rest.
#pragma once
#include "hone/model/distributed_attention.h"
#include "hone/parallel/collectives/process_group.h"

namespace hone::parallel {

class SequenceParallel final : public model::DistributedAttention {
 public:
  // `members` of `world` split each sequence. gcd(heads, members) of them split the heads, as in ms-swift. `gathers`: the rest
  // all-gather keys and values, instead of a ring.
  SequenceParallel(ProcessGroup& world, const std::vector<int>& members, int64_t heads, bool gathers = false);

  Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const ops::AttentionMetadata& metadata,
                const ops::AttentionShape& shape) override;

  int64_t padding_multiple() const;        // rows are padded to this many positions
  Tensor positions(int64_t padded) const;  // int64: positions of a padded sequence on this rank
  bool is_first_rank() const { return rank_ == 0; }
  int size() const { return heads_->size() * ring_->size(); }
  int head_ranks() const { return heads_->size(); }  // that split the heads
  void all_reduce(Tensor& values) const;             // in place, over the ranks of a sequence
  std::string str() const;

 private:
  Tensor ring_positions(int64_t padded) const;
  int rank_;
  bool gathers_;
  std::unique_ptr<ProcessGroup> heads_, ring_;
};

}  // namespace hone::parallel
