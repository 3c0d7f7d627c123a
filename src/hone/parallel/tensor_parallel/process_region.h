// Entry and exit of the sharded layers of a block across processes, differentiable. With sequence parallelism the ranks split the
// rows outside of them: the last rank's may be padded.
#pragma once
#include "hone/model/tensor_parallel/region.h"
#include "hone/ops/loss/vocabulary_shard.h"
#include "hone/parallel/collectives/process_group.h"

namespace hone::parallel {

class ProcessRegion final : public model::TensorParallelRegion {
 public:
  // Vocabulary shard: this rank has `here` of `size` tokens, from `first` on; the largest shard has `largest`.
  struct VocabularyRange {
    int64_t first, here, size, largest;
  };
  ProcessRegion(ProcessGroup& group, bool sequence_parallel, const VocabularyRange& range);

  Tensor enter(const Tensor& x_th, int64_t rows) override;
  Tensor leave(const Tensor& partial_th) override;
  model::RowRange own_rows(int64_t rows) const override;
  Tensor embed(const model::Embedding& embedding, const Tensor& tokens_t, const ops::LoraMapping& adapters) override;
  Tensor gather_vocabulary(const Tensor& here_tw) override;
  Tensor replicated(const Tensor& values) override;
  const ops::VocabularyShard* vocabulary() const override { return &vocabulary_; }
  int64_t ranks() const override { return group_.size(); }

 private:
  class Vocabulary final : public ops::VocabularyShard {
   public:
    Vocabulary(ProcessGroup& group, const VocabularyRange& range)
        : VocabularyShard(range.first, range.size, range.largest), group_(group) {}
    void all_reduce_max(Tensor& values) const override { group_.all_reduce(values, ReduceOp::max)->wait(); }
    void all_reduce_sum(Tensor& values) const override { group_.all_reduce(values)->wait(); }

   private:
    ProcessGroup& group_;
  };

  ProcessGroup& group_;
  bool sequence_parallel_;
  VocabularyRange range_;
  Vocabulary vocabulary_;
};

}  // namespace hone::parallel
