#include "hone/train/distributed/sequence_split.h"

#include "hone/data/sample.h"

namespace hone::train {
namespace {

Tensor padded(const Tensor& values, int64_t length, double with) {
  return values.defined() ? at::constant_pad_nd(values, {0, length - values.size(0)}, with) : values;
}

}  // namespace

data::Batch own_part(const data::Batch& batch, const parallel::SequenceParallel& sequence) {
  int64_t tokens = batch.segments.total(), multiple = sequence.padding_multiple(),
          length = (tokens + multiple - 1) / multiple * multiple;
  auto own = sequence.positions(length);
  auto pick = [&](const Tensor& values, double with) {
    auto whole = padded(values, length, with);
    return whole.defined() ? whole.index_select(0, own) : whole;
  };
  data::Batch part = batch;
  part.tokens_t = pick(batch.tokens_t, 0);
  part.positions_t = pick(batch.positions_t, 0);
  part.targets_t = pick(batch.targets_t, data::kIgnore);
  part.weights_t = pick(batch.weights_t, 0);
  if (length > tokens) part.segments.append(length - tokens);
  part.target_count = part.targets_t.ne(data::kIgnore).sum().item<int64_t>();
  if (!sequence.is_first_rank()) part.sample_count = 0;
  return part;
}

}  // namespace hone::train
