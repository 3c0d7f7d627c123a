// Entry and exit of the tensor parallel layers of a block. Between the two calls a rank computes with its shard of the weights;
// outside of them every rank has the same rows, or with Megatron's sequence parallelism a part of the rows.
#pragma once
#include "hone/device/tensor.h"
#include "hone/model/layers.h"

namespace hone::ops {
class VocabularyShard;
}

namespace hone::model {

struct RowRange {
  int64_t begin, end;
};

class TensorParallelRegion {
 public:
  virtual ~TensorParallelRegion() = default;
  // Input of column-parallel layers: all `rows`. Backward, sums the gradients over the ranks.
  virtual Tensor enter(const Tensor& x_th, int64_t /*rows*/) { return x_th; }
  // Sums the outputs of row-parallel layers over the ranks; bit-identical on every rank, or only this rank's rows.
  virtual Tensor leave(const Tensor& partial_th) = 0;
  // This rank's share of `rows` rows outside of sharded layers; the end may be padding.
  virtual RowRange own_rows(int64_t rows) const { return {0, rows}; }
  // Embedding with a sharded vocabulary; the output is that of leave().
  virtual Tensor embed(const Embedding& embedding, const Tensor& tokens_t, const ops::LoraMapping& adapters) {
    return embedding(tokens_t, adapters);
  }
  // Gathers all columns of the output of a sharded head; every rank continues with them in the same way.
  virtual Tensor gather_vocabulary(const Tensor& here_tw) { return here_tw; }
  // Values that are equal on every rank. Backward, only the first rank's gradient counts.
  virtual Tensor replicated(const Tensor& values) { return values; }
  // The vocabulary shard of the head on this rank; null: all of it.
  virtual const ops::VocabularyShard* vocabulary() const { return nullptr; }
  virtual int64_t ranks() const { return 1; }
};

}  // namespace hone::model
