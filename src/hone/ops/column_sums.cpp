#include "hone/ops/column_sums.h"

#include "hone/ops/cuda/column_sums.h"
#include "hone/ops/cuda/training.h"

namespace hone::ops {

Tensor column_sums(const Tensor& x) { return cuda::supports_rows(x) ? cuda::column_sums(x) : x.sum(0); }

}  // namespace hone::ops
