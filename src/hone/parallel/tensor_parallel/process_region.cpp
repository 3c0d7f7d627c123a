#include "hone/parallel/tensor_parallel/process_region.h"

#include "hone/base/fault_injection.h"
#include "hone/device/autograd.h"

namespace hone::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor summed(const Tensor& partial, ProcessGroup& group) {
  auto total = partial.clone(at::MemoryFormat::Contiguous);  // the original may be saved for the backward pass
  group.all_reduce(total)->wait();
  return total;
}

int64_t rows_per_rank(int64_t rows, const ProcessGroup& group) { return (rows + group.size() - 1) / group.size(); }

Tensor gathered_rows(const Tensor& own, int64_t rows, ProcessGroup& group) {
  auto all = at::empty({own.size(0) * group.size(), own.size(1)}, own.options());
  group.all_gather(all, own.contiguous())->wait();
  return all.narrow(0, 0, rows);
}

Tensor scattered_sum(const Tensor& partial, ProcessGroup& group) {
  const int64_t rows = partial.size(0), own_rows = rows_per_rank(rows, group), missing = own_rows * group.size() - rows;
  auto all = missing > 0 ? at::constant_pad_nd(partial, {0, 0, 0, missing}) : partial.contiguous();
  auto own = at::empty({own_rows, partial.size(1)}, partial.options());
  auto flat = own.view(-1);
  group.reduce_scatter(flat, all.view(-1))->wait();
  return own;
}

// A group outlives every pass that uses it.
ProcessGroup& group_of(AutogradContext* ctx) {
  return *reinterpret_cast<ProcessGroup*>(static_cast<intptr_t>(ctx->saved_data["group"].toInt()));
}

void keep(AutogradContext* ctx, ProcessGroup* group) {
  ctx->saved_data["group"] = static_cast<int64_t>(reinterpret_cast<intptr_t>(group));
}

struct CopyToRegion : torch::autograd::Function<CopyToRegion> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, ProcessGroup* group) {
    keep(ctx, group);
    return x.view_as(x);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {summed(grads[0], group_of(ctx)), Tensor()};
  }
};

struct ReduceFromRegion : torch::autograd::Function<ReduceFromRegion> {
  static Tensor forward(AutogradContext*, const Tensor& partial, ProcessGroup* group) { return summed(partial, *group); }
  static variable_list backward(AutogradContext*, const variable_list& grads) { return {grads[0], Tensor()}; }
};

struct GatherRows : torch::autograd::Function<GatherRows> {
  static Tensor forward(AutogradContext* ctx, const Tensor& own, int64_t rows, ProcessGroup* group) {
    keep(ctx, group);
    return gathered_rows(own, rows, *group);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {scattered_sum(grads[0], group_of(ctx)), Tensor(), Tensor()};
  }
};

struct ReduceScatterRows : torch::autograd::Function<ReduceScatterRows> {
  static Tensor forward(AutogradContext* ctx, const Tensor& partial, ProcessGroup* group) {
    keep(ctx, group);
    ctx->saved_data["rows"] = partial.size(0);
    return scattered_sum(partial, *group);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {gathered_rows(grads[0], ctx->saved_data["rows"].toInt(), group_of(ctx)), Tensor()};
  }
};

// All ranks continue identically, so each has the full gradient of its own columns.
struct GatherColumns : torch::autograd::Function<GatherColumns> {
  static Tensor forward(AutogradContext* ctx, const Tensor& own, int64_t columns, int64_t largest, ProcessGroup* group) {
    const int64_t ranks = group->size(), rank = group->rank();
    auto first_of = [&](int64_t of) { return of * columns / ranks; };
    ctx->saved_data["first"] = first_of(rank);
    ctx->saved_data["count"] = own.size(1);
    auto padded = at::constant_pad_nd(own, {0, largest - own.size(1)}).contiguous();
    auto flat = at::empty({ranks * padded.numel()}, own.options());
    group->all_gather(flat, padded.view(-1))->wait();
    const auto all = flat.view({ranks, own.size(0), largest});
    TensorList parts;
    for (int64_t of = 0; of < ranks; ++of) parts.push_back(all[of].narrow(1, 0, first_of(of + 1) - first_of(of)));
    return at::cat(parts, 1);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {grads[0].narrow(1, ctx->saved_data["first"].toInt(), ctx->saved_data["count"].toInt()), Tensor(), Tensor(), Tensor()};
  }
};

struct Replicated : torch::autograd::Function<Replicated> {
  static Tensor forward(AutogradContext* ctx, const Tensor& values, bool speaks) {
    ctx->saved_data["speaks"] = speaks;
    return values.view_as(values);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {ctx->saved_data["speaks"].toBool() ? grads[0] : at::zeros_like(grads[0]), Tensor()};
  }
};

}  // namespace

ProcessRegion::ProcessRegion(ProcessGroup& group, bool sequence_parallel, const VocabularyRange& range)
    : group_(group), sequence_parallel_(sequence_parallel), range_(range), vocabulary_(group, range) {}

Tensor ProcessRegion::enter(const Tensor& x_th, int64_t rows) {
  return sequence_parallel_ ? GatherRows::apply(x_th, rows, &group_) : CopyToRegion::apply(x_th, &group_);
}

Tensor ProcessRegion::leave(const Tensor& partial_th) {
  return sequence_parallel_ ? ReduceScatterRows::apply(partial_th, &group_) : ReduceFromRegion::apply(partial_th, &group_);
}

model::RowRange ProcessRegion::own_rows(int64_t rows) const {
  if (!sequence_parallel_) return {0, rows};
  const int64_t each = rows_per_rank(rows, group_);
  return {group_.rank() * each, (group_.rank() + 1) * each};
}

// Tokens of other ranks embed to zero here.
Tensor ProcessRegion::embed(const model::Embedding& embedding, const Tensor& tokens_t, const ops::LoraMapping& adapters) {
  auto place = tokens_t - range_.first;
  const auto foreign = (place < 0).logical_or(place >= range_.here);
  return leave(embedding(place.masked_fill(foreign, 0), adapters).masked_fill(foreign.unsqueeze(1), 0));
}

Tensor ProcessRegion::gather_vocabulary(const Tensor& here_tw) {
  return GatherColumns::apply(here_tw, range_.size, range_.largest, &group_);
}

Tensor ProcessRegion::replicated(const Tensor& values) {
  return Replicated::apply(values, group_.rank() == 0 || fault("tensor_parallel.replicated"));
}

}  // namespace hone::parallel
