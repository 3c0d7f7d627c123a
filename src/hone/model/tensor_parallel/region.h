// Where the cut layers of a block begin and end. Between the two calls a rank computes with its part of the weights; outside of
// them every rank has the same rows, or under Megatron's sequence parallelism a part of the rows.
#pragma once
#include "hone/device/tensor.h"
#include "hone/model/layers.h"

namespace hone::ops {
class VocabularyShard;
}

namespace hone::model {

class TensorParallelRegion {
 public:
  virtual ~TensorParallelRegion() = default;
  // What layers whose outputs are cut read: all `rows`. Backward, the sum of what each rank's layers say of them.
  virtual Tensor enter(const Tensor& x_th, int64_t /*rows*/) { return x_th; }
  // The sum over the ranks of what layers whose inputs are cut computed; the same bits on every rank, or this rank's rows.
  virtual Tensor leave(const Tensor& partial_th) = 0;
  // The embedding of tokens whose rows are on several ranks; left as leave() does.
  virtual Tensor embed(const Embedding& embedding, const Tensor& tokens_t, const ops::LoraMapping& adapters) {
    return embedding(tokens_t, adapters);
  }
  // All columns of what a head whose outputs are cut computed; every rank goes on with them in the same way.
  virtual Tensor gather_words(const Tensor& here_tw) { return here_tw; }
  // What every rank computed alike. Backward, the first one speaks for all.
  virtual Tensor replicated(const Tensor& values) { return values; }
  // Which words the head has here; null: all of them.
  virtual const ops::VocabularyShard* vocabulary() const { return nullptr; }
  virtual int64_t ranks() const { return 1; }
};

}  // namespace hone::model
