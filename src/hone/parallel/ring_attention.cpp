#include "hone/parallel/ring_attention.h"

#include <optional>

#include "hone/device/autograd.h"

namespace hone::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// int64 [2, own]: position in the row and number of the sequence, for every own position. Travels with keys and values.
Tensor places_of(const RingContext& row, at::Device device) {
  auto sequence = at::empty({row.segments.total()}, at::kLong);
  for (int64_t i = 0; i < row.segments.count(); ++i)
    sequence.narrow(0, row.segments.offsets[static_cast<size_t>(i)], row.segments.length(i)).fill_(i);
  return at::stack({row.positions, sequence.index_select(0, row.positions)}).to(device);
}

// What goes on to the next rank while this one computes.
class RingShift {
 public:
  RingShift(ProcessGroup& group, const TensorList& tensors) {
    for (const auto& tensor : tensors) {
      auto sent = tensor.contiguous();
      received_.push_back(at::empty_like(sent));
      works_.push_back(group.ring_shift(received_.back(), sent));
    }
  }
  // From the rank before.
  TensorList wait() {
    for (auto& work : works_) work->wait();
    return std::move(received_);
  }

 private:
  TensorList received_;
  std::vector<std::unique_ptr<Work>> works_;
};

struct Ring : torch::CustomClassHolder {
  Ring(ProcessGroup& group, double scale, int64_t window, bool gathers)
      : group(group), scale(scale), window(window), gathers(gathers) {}
  ProcessGroup& group;
  double scale;
  int64_t window;
  bool gathers;  // everyone has all keys and values at a time, instead of passing them on

  // float32 [kv heads, queries of all heads that share one, keys]; -inf where a query may not look.
  Tensor scores(const Tensor& q, const Tensor& k, const Tensor& asking, const Tensor& asked) const {
    auto query = asking[0].unsqueeze(1), key = asked[0].unsqueeze(0);
    auto hidden = (key > query).logical_or_(asking[1].unsqueeze(1) != asked[1].unsqueeze(0));
    if (window > 0) hidden.logical_or_(key <= query - window);
    auto all = at::matmul(q, k.transpose(1, 2)) * scale;
    all.view({q.size(0), -1, asking.size(1), asked.size(1)}).masked_fill_(hidden, -std::numeric_limits<double>::infinity());
    return all;
  }

  int owner(int step) const { return (group.rank() + step) % group.size(); }  // whose are visited, where all are gathered
  Tensor gathered(const Tensor& own) const {                                  // [ranks, …]
    auto shape = own.sizes().vec();
    shape.insert(shape.begin(), group.size());
    auto flat = at::empty({group.size() * own.numel()}, own.options());
    group.all_gather(flat, own.contiguous().view(-1))->wait();
    return flat.view(shape);
  }
  // The sum over ranks of what each found for this one.
  Tensor scattered(const TensorList& of_ranks) const {
    auto sum = at::empty_like(of_ranks[0]);
    auto flat = sum.view(-1);
    group.reduce_scatter(flat, at::stack(of_ranks).view(-1))->wait();
    return sum;
  }

  // visit(step, keys, values, places) for those of this rank and of every other, which are on their way meanwhile.
  template <class Visit>
  void for_guests(const Tensor& k, const Tensor& v, const Tensor& places, Visit visit) const {
    if (gathers) {
      const auto keys = gathered(k), values = gathered(v), all_places = gathered(places);
      for (int step = 0; step < group.size(); ++step)
        visit(step, keys[owner(step)].to(at::kFloat), values[owner(step)].to(at::kFloat), all_places[owner(step)]);
      return;
    }
    TensorList guests{k, v, places};
    for (int step = 0; step < group.size(); ++step) {
      std::optional<RingShift> next;
      if (step + 1 < group.size()) next.emplace(group, guests);
      visit(step, guests[0].to(at::kFloat), guests[1].to(at::kFloat), guests[2]);
      if (next) guests = next->wait();
    }
  }
};

constexpr double kNothingYet = -1e30;  // log of a sum without terms; finite, so that differences of such are numbers

class RingAttention : public torch::autograd::Function<RingAttention> {
 public:
  // q: float32 [kv heads, own of each head, d]; k, v: [kv heads, own, d], which travel in their own type.
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& places,
                        const c10::intrusive_ptr<Ring>& ring) {
    auto out = at::zeros_like(q);
    auto mass = at::full({q.size(0), q.size(1), 1}, kNothingYet, q.options());  // log of the weights' sum so far
    ring->for_guests(k, v, places, [&](int, const Tensor& key, const Tensor& value, const Tensor& asked) {
      auto scores = ring->scores(q, key, places, asked);
      auto fresh = scores.logsumexp(-1, true), total = at::logaddexp(mass, fresh);
      out = out * (mass - total).exp() + at::matmul((scores - total).exp(), value);
      mass = total;
    });
    ctx->save_for_backward({q, k, v, places, out, mass});
    ctx->saved_data["ring"] = c10::IValue::make_capsule(ring);
    return out;
  }

  // Sums of the gradients of a rank's keys and values follow them from rank to rank, and come home from the last one.
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    auto saved = ctx->get_saved_variables();
    auto ring = c10::static_intrusive_pointer_cast<Ring>(ctx->saved_data["ring"].toCapsule());
    const auto &q = saved[0], &places = saved[3], &out = saved[4], &mass = saved[5];
    const auto& grad = grads[0];
    auto inner = (grad * out).sum(-1, true);
    auto q_grad = at::zeros_like(q);
    const auto ranks = static_cast<size_t>(ring->group.size());
    TensorList own, keys_of_ranks(ranks), values_of_ranks(ranks);
    std::optional<RingShift> passing;
    ring->for_guests(saved[1], saved[2], places, [&](int step, const Tensor& key, const Tensor& value, const Tensor& asked) {
      auto weights = (ring->scores(q, key, places, asked) - mass).exp();
      auto scores_grad = weights * (at::matmul(grad, value.transpose(1, 2)) - inner) * ring->scale;
      q_grad += at::matmul(scores_grad, key);
      TensorList sums{at::matmul(scores_grad.transpose(1, 2), q), at::matmul(weights.transpose(1, 2), grad)};
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
    return {q_grad, own[0].to(saved[1].scalar_type()), own[1].to(saved[2].scalar_type()), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor ring_attention(const Tensor& q, const Tensor& k, const Tensor& v, const RingContext& row,
                      const ops::AttentionShape& shape) {
  const int64_t own = q.size(0);
  auto by_kv_head = [&](const Tensor& x) {
    return x.reshape({own, shape.kv_heads, shape.head_dim}).transpose(0, 1).contiguous();
  };
  auto q_by_head = q.to(at::kFloat).reshape({own, shape.heads, shape.head_dim}).transpose(0, 1);
  auto ring = c10::make_intrusive<Ring>(row.ring, shape.scale, shape.window, row.gathers);
  auto out = RingAttention::apply(q_by_head.reshape({shape.kv_heads, -1, shape.head_dim}), by_kv_head(k), by_kv_head(v),
                                  places_of(row, q.device()), ring);
  return out.reshape({shape.heads, own, shape.head_dim}).transpose(0, 1).reshape({own, -1}).to(q.scalar_type());
}

}  // namespace hone::parallel
