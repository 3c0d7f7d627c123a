#include "hone/train/distributed/sequence_split.h"

#include "hone/data/sample.h"

namespace hone::train {
namespace {

int64_t padded_length(int64_t tokens, const parallel::SequenceParallel& sequence) {
  const int64_t multiple = sequence.padding_multiple();
  return (tokens + multiple - 1) / multiple * multiple;
}

Tensor padded(const Tensor& values, int64_t length, double with) {
  if (!values.defined()) return values;
  std::vector<int64_t> room(static_cast<size_t>(values.dim()) * 2, 0);  // from the last dimension to the first, before and after
  room.back() = length - values.size(0);
  return at::constant_pad_nd(values, room, with);
}

// Where rows of media are among these positions; -1: on another rank.
Tensor positions_of(const Tensor& rows_n, const Tensor& own, int64_t length) {
  if (!rows_n.defined()) return rows_n;
  auto positions = at::full({length}, -1, own.options());
  positions.index_copy_(0, own, at::arange(own.size(0), own.options()));
  return positions.index_select(0, rows_n);
}

}  // namespace

data::Batch own_part(const data::Batch& batch, const parallel::SequenceParallel& sequence) {
  const int64_t tokens = batch.segments.total(), length = padded_length(tokens, sequence);
  auto own = sequence.positions(length).to(batch.tokens_t.device());
  auto pick = [&](const Tensor& values, double with) {
    auto whole = padded(values, length, with);
    return whole.defined() ? whole.index_select(0, own) : whole;
  };
  data::Batch part = batch;
  part.tokens_t = pick(batch.tokens_t, 0);
  const bool has_axes = batch.positions_t.defined() && batch.positions_t.dim() == 2;  // of M-RoPE
  part.positions_t = has_axes ? pick(batch.positions_t.t(), 0).t().contiguous() : pick(batch.positions_t, 0);
  part.images.rows_n = positions_of(batch.images.rows_n, own, length);
  part.audio.rows_n = positions_of(batch.audio.rows_n, own, length);
  part.targets_t = pick(batch.targets_t, data::kIgnore);
  part.weights_t = pick(batch.weights_t, 0);
  part.routed_experts_tlk = pick(batch.routed_experts_tlk, -1);
  if (length > tokens) part.segments.append(length - tokens);
  part.target_count = part.targets_t.ne(data::kIgnore).sum().item<int64_t>();
  if (!sequence.is_first_rank()) part.sample_count = 0;
  return part;
}

Tensor own_rows(const Tensor& rows, const parallel::SequenceParallel& sequence) {
  const int64_t length = padded_length(rows.size(0), sequence);
  return padded(rows, length, 0).index_select(0, sequence.positions(length).to(rows.device()));
}

Tensor whole_rows(const Tensor& own, int64_t tokens, const parallel::SequenceParallel& sequence) {
  const int64_t length = padded_length(tokens, sequence);
  const auto positions = sequence.positions(length).to(own.device());
  auto shape = own.sizes().vec();
  shape[0] = length;
  auto all = at::zeros(shape, own.options().requires_grad(false));
  {
    at::NoGradGuard no_grad;
    all.index_copy_(0, positions, own);
    sequence.all_reduce(all);
  }
  return all.index_copy(0, positions, own).narrow(0, 0, tokens);
}

}  // namespace hone::train
