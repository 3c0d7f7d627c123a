// Long sequences over several processes: each keeps some positions of a row. Attention exchanges heads for positions (Ulysses) as
// far as there are heads to share out, and passes keys and values round a circle (ring) for the rest.
#pragma once
#include "hone/model/distributed_attention.h"
#include "hone/parallel/collectives/process_group.h"

namespace hone::parallel {

class SequenceParallel final : public model::DistributedAttention {
 public:
  // `members` of `world` share each sequence. Heads go to gcd(heads, members) of them, as in ms-swift. `gathers`: the rest gather
  // keys and values, instead of passing them on.
  SequenceParallel(ProcessGroup& world, const std::vector<int>& members, int64_t heads, bool gathers = false);

  Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const ops::AttentionMetadata& plan,
                const ops::AttentionShape& shape) override;

  int64_t padding_multiple() const;        // rows are padded to this many positions
  Tensor positions(int64_t padded) const;  // int64: which positions of a padded row this process keeps
  bool is_first_rank() const { return rank_ == 0; }
  int size() const { return heads_->size() * ring_->size(); }
  void all_reduce(Tensor& values) const;  // in place, over the processes that share a row
  std::string str() const;

 private:
  Tensor ring_positions(int64_t padded) const;
  int rank_;
  bool gathers_;
  std::unique_ptr<ProcessGroup> heads_, ring_;
};

}  // namespace hone::parallel
