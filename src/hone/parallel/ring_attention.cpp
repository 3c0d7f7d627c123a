#include "hone/parallel/ring_attention.h"

#include <optional>

#include "hone/device/autograd.h"
#include "hone/ops/attention/chunk_attention.h"

namespace hone::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Neighboring positions of one sequence on one rank.
struct Run {
  int64_t row = 0;       // the first one among the rank's own
  int64_t position = 0;  // the first one in its sequence
  int64_t length = 0, sequence = 0;
};

std::vector<Run> runs_of(const ops::CuSeqlens& segments, const std::array<Range, 2>& chunks) {
  std::vector<Run> runs;
  int64_t row = 0;
  for (const auto& chunk : chunks) {
    for (int64_t i = 0; i < segments.count(); ++i) {
      const int64_t start = segments.offsets[static_cast<size_t>(i)];
      const int64_t begin = std::max(start, chunk.begin), end = std::min(start + segments.length(i), chunk.end);
      if (begin < end) runs.push_back({row + begin - chunk.begin, begin - start, end - begin, i});
    }
    row += chunk.size();
  }
  return runs;
}

// A run of own queries and a run of keys that they see.
struct RunPair {
  Run queries, keys;
  ops::ChunkPair pair;
};

// Tensors that are sent to the next rank while this one computes.
class RingShift {
 public:
  RingShift(ProcessGroup& group, const TensorList& tensors) {
    for (const auto& tensor : tensors) {
      auto sent = tensor.contiguous();
      received_.push_back(at::empty_like(sent));
      works_.push_back(group.ring_shift(received_.back(), sent));
    }
  }
  // From the previous rank.
  TensorList wait() {
    for (auto& work : works_) work->wait();
    return std::move(received_);
  }

 private:
  TensorList received_;
  std::vector<std::unique_ptr<Work>> works_;
};

struct Ring : torch::CustomClassHolder {
  Ring(const RingContext& row, const ops::AttentionShape& shape)
      : group(row.ring), scale(shape.scale), window(shape.window), gathers(row.gathers) {
    for (int rank = 0; rank < group.size(); ++rank)
      runs.push_back(runs_of(row.segments, ring_chunks(row.segments.total(), group.size(), rank)));
  }
  ProcessGroup& group;
  double scale;
  int64_t window;
  bool gathers;                        // every rank has all keys and values at a time, instead of passing them on
  std::vector<std::vector<Run>> runs;  // of every rank

  // Own queries with the keys of `owner` that they see.
  std::vector<RunPair> visible_runs(int owner) const {
    std::vector<RunPair> found;
    for (const auto& queries : runs[static_cast<size_t>(group.rank())])
      for (const auto& keys : runs[static_cast<size_t>(owner)]) {
        const ops::ChunkPair pair{queries.position, queries.length, keys.position, keys.length, window};
        if (queries.sequence == keys.sequence && pair.visible() != ops::ChunkPair::Visible::nothing)
          found.push_back({queries, keys, pair});
      }
    return found;
  }

  // Whose keys and values are here at a step: in a ring those of the previous ranks arrive one by one.
  int owner(int step) const { return (group.rank() + (gathers ? step : group.size() - step)) % group.size(); }
  Tensor gathered(const Tensor& own) const {  // [ranks, …]
    auto shape = own.sizes().vec();
    shape.insert(shape.begin(), group.size());
    auto flat = at::empty({group.size() * own.numel()}, own.options());
    group.all_gather(flat, own.contiguous().view(-1))->wait();
    return flat.view(shape);
  }
  // The sum over ranks of the gradients for this one.
  Tensor scattered(const TensorList& of_ranks) const {
    auto sum = at::empty_like(of_ranks[0]);
    auto flat = sum.view(-1);
    group.reduce_scatter(flat, at::stack(of_ranks).view(-1))->wait();
    return sum;
  }

  // visit(step, keys, values) for those of this rank, then of every other; the next ones are received meanwhile.
  template <class Visit>
  void for_each_rank(const Tensor& k, const Tensor& v, Visit visit) const {
    if (gathers) {
      const auto keys = gathered(k), values = gathered(v);
      for (int step = 0; step < group.size(); ++step) visit(step, keys[owner(step)], values[owner(step)]);
      return;
    }
    TensorList remote{k, v};
    for (int step = 0; step < group.size(); ++step) {
      std::optional<RingShift> next;
      if (step + 1 < group.size()) next.emplace(group, remote);
      visit(step, remote[0], remote[1]);
      if (next) remote = next->wait();
    }
  }
};

Tensor rows(const Tensor& x, const Run& run) { return x.narrow(0, run.row, run.length); }

// Adds a run of queries' attention over further keys, in place.
void merge(ops::ChunkAttention whole, const ops::ChunkAttention& part) {
  auto total = at::logaddexp(whole.lse, part.lse);
  auto share = [&](const Tensor& lse) { return (lse - total).exp_().t().unsqueeze(-1); };
  whole.out.mul_(share(whole.lse)).add_(part.out.to(at::kFloat).mul(share(part.lse)));
  whole.lse.copy_(total);
}

class RingAttention : public torch::autograd::Function<RingAttention> {
 public:
  // q [own, heads, d]; k, v [own, kv heads, d], which are sent in their own type.
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                        const c10::intrusive_ptr<Ring>& ring) {
    const auto floats = q.options().dtype(at::kFloat);
    auto out = at::zeros(q.sizes(), floats), lse = at::zeros({q.size(1), q.size(0)}, floats);
    std::vector<bool> has_some(static_cast<size_t>(q.size(0)));  // whether the run that begins there has a result yet
    ring->for_each_rank(k, v, [&](int step, const Tensor& keys, const Tensor& values) {
      for (const auto& [queries, key_run, pair] : ring->visible_runs(ring->owner(step))) {
        const auto part = ops::chunk_attention(rows(q, queries), rows(keys, key_run), rows(values, key_run), pair, ring->scale);
        const ops::ChunkAttention whole{rows(out, queries), lse.narrow(1, queries.row, queries.length)};
        if (has_some[static_cast<size_t>(queries.row)])
          merge(whole, part);
        else
          whole.out.copy_(part.out), whole.lse.copy_(part.lse);
        has_some[static_cast<size_t>(queries.row)] = true;
      }
    });
    out = out.to(q.scalar_type());
    ctx->save_for_backward({q, k, v, out, lse});
    ctx->saved_data["ring"] = c10::IValue::make_capsule(ring);
    return out;
  }

  // Gradients of a rank's keys and values are accumulated while they move from rank to rank, and the last rank returns them.
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    auto saved = ctx->get_saved_variables();
    auto ring = c10::static_intrusive_pointer_cast<Ring>(ctx->saved_data["ring"].toCapsule());
    const auto &q = saved[0], &out = saved[3], &lse = saved[4];
    const auto grad = grads[0].contiguous();
    auto q_grad = at::zeros(q.sizes(), lse.options());
    const auto ranks = static_cast<size_t>(ring->group.size());
    TensorList own, keys_of_ranks(ranks), values_of_ranks(ranks);
    std::optional<RingShift> passing;
    ring->for_each_rank(saved[1], saved[2], [&](int step, const Tensor& keys, const Tensor& values) {
      TensorList sums{at::zeros(keys.sizes(), lse.options()), at::zeros(values.sizes(), lse.options())};
      for (const auto& [queries, key_run, pair] : ring->visible_runs(ring->owner(step))) {
        const ops::ChunkAttention whole{rows(out, queries), lse.narrow(1, queries.row, queries.length)};
        const auto found = ops::chunk_attention_backward(rows(grad, queries), rows(q, queries), rows(keys, key_run),
                                                         rows(values, key_run), whole, pair, ring->scale);
        rows(q_grad, queries).add_(found.q);
        rows(sums[0], key_run).add_(found.k);
        rows(sums[1], key_run).add_(found.v);
      }
      if (ring->gathers) {
        const auto owner = static_cast<size_t>(ring->owner(step));
        keys_of_ranks[owner] = sums[0], values_of_ranks[owner] = sums[1];
        return;
      }
      if (passing) at::_foreach_add_(sums, passing->wait());
      if (step == 0)
        own = std::move(sums);
      else
        passing.emplace(ring->group, sums);
    });
    if (passing) at::_foreach_add_(own, passing->wait());
    if (ring->gathers) own = {ring->scattered(keys_of_ranks), ring->scattered(values_of_ranks)};
    return {q_grad.to(q.scalar_type()), own[0].to(saved[1].scalar_type()), own[1].to(saved[2].scalar_type()), Tensor()};
  }
};

}  // namespace

std::array<Range, 2> ring_chunks(int64_t positions, int ranks, int rank) {
  const int64_t length = positions / (2 * ranks), back = 2 * ranks - 1 - rank;
  return {{{rank * length, (rank + 1) * length}, {back * length, (back + 1) * length}}};
}

Tensor ring_attention(const Tensor& q, const Tensor& k, const Tensor& v, const RingContext& row,
                      const ops::AttentionShape& shape) {
  auto by_head = [&](const Tensor& x, int64_t heads) { return x.reshape({x.size(0), heads, shape.head_dim}); };
  auto out = RingAttention::apply(by_head(q, shape.heads), by_head(k, shape.kv_heads), by_head(v, shape.kv_heads),
                                  c10::make_intrusive<Ring>(row, shape));
  return out.reshape({q.size(0), -1});
}

}  // namespace hone::parallel
