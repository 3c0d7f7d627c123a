#include "hone/parallel/ring_attention.h"

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

struct Ring : torch::CustomClassHolder {
  Ring(ProcessGroup& group, double scale, int64_t window) : group(group), scale(scale), window(window) {}
  ProcessGroup& group;
  double scale;
  int64_t window;

  // float32 [heads, queries, keys]; -inf where a query may not look.
  Tensor scores(const Tensor& q, const Tensor& k, const Tensor& asking, const Tensor& asked) const {
    auto query = asking[0].unsqueeze(1), key = asked[0].unsqueeze(0);
    auto hidden = (key > query).logical_or_(asking[1].unsqueeze(1) != asked[1].unsqueeze(0));
    if (window > 0) hidden.logical_or_(key <= query - window);
    return (at::matmul(q, k.transpose(1, 2)) * scale).masked_fill_(hidden, -std::numeric_limits<double>::infinity());
  }
  TensorList passed_on(const TensorList& tensors) const {
    TensorList received;
    for (const auto& tensor : tensors) {
      auto sent = tensor.contiguous();
      received.push_back(at::empty_like(sent));
      group.ring_shift(received.back(), sent)->wait();
    }
    return received;
  }
};

constexpr double kNothingYet = -1e30;  // log of a sum without terms; finite, so that differences of such are numbers

class RingAttention : public torch::autograd::Function<RingAttention> {
 public:
  // q, k, v: float32 [heads, own, d].
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& places,
                        const c10::intrusive_ptr<Ring>& ring) {
    auto out = at::zeros_like(q);
    auto mass = at::full({q.size(0), q.size(1), 1}, kNothingYet, q.options());  // log of the weights' sum so far
    TensorList guests{k, v, places};
    for (int step = 0; step < ring->group.size(); ++step) {
      auto scores = ring->scores(q, guests[0], places, guests[2]);
      auto fresh = scores.logsumexp(-1, true), total = at::logaddexp(mass, fresh);
      out = out * (mass - total).exp() + at::matmul((scores - total).exp(), guests[1]);
      mass = total;
      if (step + 1 < ring->group.size()) guests = ring->passed_on(guests);
    }
    ctx->save_for_backward({q, k, v, places, out, mass});
    ctx->saved_data["ring"] = c10::IValue::make_capsule(ring);
    return out;
  }

  // The gradients of keys and values travel with them, and are home after a full turn.
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    auto saved = ctx->get_saved_variables();
    auto ring = c10::static_intrusive_pointer_cast<Ring>(ctx->saved_data["ring"].toCapsule());
    const auto &q = saved[0], &places = saved[3], &out = saved[4], &mass = saved[5];
    const auto& grad = grads[0];
    auto inner = (grad * out).sum(-1, true);
    auto q_grad = at::zeros_like(q);
    TensorList guests{saved[1], saved[2], places, at::zeros_like(saved[1]), at::zeros_like(saved[2])};
    for (int step = 0; step < ring->group.size(); ++step) {
      auto weights = (ring->scores(q, guests[0], places, guests[2]) - mass).exp();
      guests[4] = guests[4] + at::matmul(weights.transpose(1, 2), grad);
      auto scores_grad = weights * (at::matmul(grad, guests[1].transpose(1, 2)) - inner) * ring->scale;
      q_grad += at::matmul(scores_grad, guests[0]);
      guests[3] = guests[3] + at::matmul(scores_grad.transpose(1, 2), q);
      guests = ring->passed_on(guests);
    }
    return {q_grad, guests[3], guests[4], Tensor(), Tensor()};
  }
};

}  // namespace

Tensor ring_attention(const Tensor& q, const Tensor& k, const Tensor& v, const RingContext& row,
                      const ops::AttentionShape& shape) {
  auto by_head = [&](const Tensor& x, int64_t heads) {
    auto split = x.to(at::kFloat).view({x.size(0), heads, -1}).transpose(0, 1);
    return (heads == shape.heads ? split : split.repeat_interleave(shape.heads / heads, 0)).contiguous();
  };
  auto ring = c10::make_intrusive<Ring>(row.ring, shape.scale, shape.window);
  auto out = RingAttention::apply(by_head(q, shape.heads), by_head(k, shape.kv_heads), by_head(v, shape.kv_heads),
                                  places_of(row, q.device()), ring);
  return out.transpose(0, 1).reshape({q.size(0), -1}).to(q.scalar_type());
}

}  // namespace hone::parallel
