#include "hone/train/losses/sequence_sums.h"

#include <algorithm>

#include "hone/parallel/sequence_parallel.h"

namespace hone::train {

Tensor sequence_ids(const ops::CuSeqlens& segments, at::Device device) {
  auto numbers_t = at::empty({segments.total()}, at::kLong);
  auto* number = numbers_t.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < segments.count(); ++i) number = std::fill_n(number, segments.length(i), i);
  return numbers_t.to(device);
}

Tensor sum_by_sequence(const Tensor& values_t, const Tensor& numbers_t, int64_t count) {
  return at::zeros({count}, values_t.options()).index_add(0, numbers_t, values_t);
}

void count_once(LossSum& result, const parallel::SequenceParallel* sequence) {
  if (!sequence || sequence->is_first_rank()) return;
  result.sum = result.sum - result.sum.detach();
  for (auto& metric : result.metrics) metric.sum = at::zeros_like(metric.sum), metric.num_items = 0;
  result.eval_outputs = Tensor();
}

}  // namespace hone::train
