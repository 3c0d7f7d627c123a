// Entry and exit of the sharded layers of a block across processes, differentiable. With sequence parallelism the ranks split the
// rows outside of them: the last rank's may be padded.
#pragma once
#include "hone/model/tensor_parallel/region.h"
#include "hone/ops/loss/vocabulary_shard.h"
#include "hone/parallel/collectives/process_group.h"

namespace hone::parallel {

class ProcessRegion final : public model::TensorParallelRegion {
 public:
  // Vocabulary shard: this rank has `here` of `words` tokens, from `first` on; the largest shard has `largest`.
  struct Words {
    int64_t first, here, words, largest;
  };
  ProcessRegion(ProcessGroup& group, bool sequence_parallel, const Words& words);

  Tensor enter(const Tensor& x_th, int64_t rows) override;
  Tensor leave(const Tensor& partial_th) override;
  model::RowRange own_rows(int64_t rows) const override;
  Tensor embed(const model::Embedding& embedding, const Tensor& tokens_t, const ops::LoraMapping& adapters) override;
  Tensor gather_words(const Tensor& here_tw) override;
  Tensor replicated(const Tensor& values) override;
  const ops::VocabularyShard* vocabulary() const override { return &vocabulary_; }
  int64_t ranks() const override { return group_.size(); }

 private:
  class Vocabulary final : public ops::VocabularyShard {
   public:
    Vocabulary(ProcessGroup& group, const Words& words)
        : VocabularyShard(words.first, words.words, words.largest), group_(group) {}
    void all_reduce_max(Tensor& values) const override { group_.all_reduce(values, ReduceOp::max)->wait(); }
    void all_reduce_sum(Tensor& values) const override { group_.all_reduce(values)->wait(); }

   private:
    ProcessGroup& group_;
  };

  ProcessGroup& group_;
  bool sequence_parallel_;
  Words words_;
  Vocabulary vocabulary_;
};

}  // namespace hone::parallel
