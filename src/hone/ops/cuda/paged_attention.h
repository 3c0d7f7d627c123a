// Paged attention on NVIDIA GPUs: our own kernels. Without nvcc at build time nothing is served here and the plain composition runs.
#pragma once
#include "hone/ops/joined_heads.h"

namespace hone::ops::cuda {

bool serves_paged(const Tensor& q, const AttentionShape& shape);
void store_keys(const Tensor& k, const Tensor& v, PagedKeys& cache, const PagedPlan& plan);
// One kernel for a decode step's norms, rotation and storing: the queries out of a joined projection, keys and values into the cache.
Tensor turn_and_store(const Tensor& qkv, const HeadNorms& norms, const RopeTable& rope, PagedKeys& cache, const PagedPlan& plan, const AttentionShape& shape);
// One query of each of the first q.size(0) sequences of the plan. Reads lengths and tables on the device only: fit for graph capture.
Tensor paged_decode(const Tensor& q, const PagedKeys& cache, const PagedPlan& plan, const AttentionShape& shape);

}  // namespace hone::ops::cuda
