// Fused operators of a decoder block except attention: norms, rotary embedding, gated activation, cross entropy, sampling filter.
#include "cann_emulator/ops/operator.h"

using namespace cann;

namespace {

// The vector unit keeps softmax-like statistics and sums in float32.
Tensor wide(const Tensor& x) { return x.to(at::kFloat); }

struct Normed {
  Tensor y, rstd;
};
Normed rms_norm(const Tensor& x, const Tensor& gamma, double epsilon) {
  auto rstd = (wide(x).square().mean(-1, true) + epsilon).rsqrt();
  return {wide(x) * rstd * wide(gamma), rstd};
}

Tensor rotated(const Tensor& x, int64_t mode) {
  if (mode == 0) {  // half
    auto parts = x.chunk(2, -1);
    return at::cat({-parts[1], parts[0]}, -1);
  }
  auto pairs = x.unflatten(-1, {-1, 2});
  return at::stack({-pairs.select(-1, 1), pairs.select(-1, 0)}, -1).flatten(-2);
}

// The transposed rotation, for gradients.
Tensor rotated_back(const Tensor& x, int64_t mode) { return -rotated(x, mode); }

void check_rotary(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  if (x.dim() != 4 || cos.dim() != 4 || sin.dim() != 4)
    throw BadParameter(kParameterInvalid,
                       c10::str("x, cos and sin must have 4 dimensions, got ", x.dim(), ", ", cos.dim(), ", ", sin.dim()));
  if (x.size(-1) % 2 || x.size(-1) > 896)
    throw BadParameter(kParameterInvalid, c10::str("head dimension ", x.size(-1), " is odd or above 896"));
  if (cos.scalar_type() != x.scalar_type() || sin.scalar_type() != x.scalar_type())
    throw BadParameter(kParameterInvalid, "x, cos and sin must have one data type");
}

Tensor rotary(const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t mode) {
  check_rotary(x, cos, sin);
  return wide(x) * wide(cos) + rotated(wide(x), mode) * wide(sin);
}

Tensor reduced_to(const Tensor& x, const Tensor& like) { return x.sum_to_size(like.sizes()); }

}  // namespace

ACLNN(RmsNorm, [](Tensor x, Tensor gamma, double epsilon, Tensor y, Tensor rstd) {
  if (x.size(-1) != gamma.size(-1)) throw BadParameter(kParameterInvalid, "gamma does not fit x");
  if (gamma.scalar_type() != x.scalar_type() && gamma.scalar_type() != at::kFloat)
    throw BadParameter(kParameterInvalid, c10::str("gamma of type ", gamma.scalar_type(), " beside x of type ", x.scalar_type()));
  auto normed = rms_norm(x, gamma, epsilon);
  store(y, normed.y), rstd.copy_(normed.rstd.reshape(rstd.sizes()));
})
ACLNN(RmsNormGrad, [](Tensor dy, Tensor x, Tensor rstd, Tensor gamma, Tensor dx, Tensor dgamma) {
  auto r = wide(rstd).reshape(x.sizes().slice(0, x.dim() - 1)).unsqueeze(-1);
  auto normal = wide(x) * r, g = wide(dy) * wide(gamma);
  store(dx, r * (g - normal * (g * normal).mean(-1, true)));
  store(dgamma, reduced_to(wide(dy) * normal, gamma));
})
ACLNN(AddRmsNorm, [](Tensor a, Tensor b, Tensor gamma, double epsilon, Tensor y, Tensor rstd, Tensor sum) {
  store(sum, a + b);
  auto normed = rms_norm(sum, gamma, epsilon);
  store(y, normed.y), rstd.copy_(normed.rstd.reshape(rstd.sizes()));
})

ACLNN(RotaryPositionEmbedding,
      [](Tensor x, Tensor cos, Tensor sin, int64_t mode, Tensor out) { store(out, rotary(x, cos, sin, mode)); })
ACLNN(RotaryPositionEmbeddingGrad,
      [](Tensor dy, Tensor cos, Tensor sin, Tensor x, int64_t mode, Tensor dx, Tensor dcos, Tensor dsin) {
        check_rotary(dy, cos, sin);
        store(dx, wide(dy) * wide(cos) + rotated_back(wide(dy) * wide(sin), mode));
        if (!x.defined()) return;
        store(dcos, reduced_to(wide(dy) * wide(x), cos)), store(dsin, reduced_to(wide(dy) * rotated(wide(x), mode), sin));
      })

ACLNN(SwiGlu, [](Tensor x, int64_t dim, Tensor out) {
  if (x.size(dim) % 2)
    throw BadParameter(kParameterInvalid, c10::str("dimension ", dim, " of size ", x.size(dim), " has no halves"));
  auto parts = wide(x).chunk(2, dim);
  store(out, at::silu(parts[0]) * parts[1]);
})
ACLNN(SwiGluGrad, [](Tensor dy, Tensor x, int64_t dim, Tensor dx) {
  auto parts = wide(x).chunk(2, dim);
  store(dx, at::cat({at::silu_backward(wide(dy) * parts[1], parts[0]), wide(dy) * at::silu(parts[0])}, dim));
})

namespace {

double reduction_weight(const std::string& reduction, const Tensor& kept) {
  return reduction == "mean" ? 1.0 / std::max<double>(1.0, kept.sum().item<double>()) : 1.0;
}

}  // namespace
ACLNN(CrossEntropyLoss, [](Tensor x, Tensor target, Tensor weight, std::string reduction, int64_t ignored, double smoothing,
                           double z_scale, bool return_z, Tensor loss, Tensor log_prob, Tensor z_loss, Tensor lse) {
  auto logs = at::log_softmax(wide(x), -1);
  store(log_prob, logs);
  auto kept = target != ignored;
  auto picked = -logs.gather(1, at::where(kept, target, 0).unsqueeze(1)).squeeze(1);
  auto rows = picked * (1 - smoothing) - logs.mean(-1) * smoothing;
  rows = at::where(kept, rows, at::zeros({}, rows.options()));
  if (reduction == "none")
    store(loss, rows);
  else
    loss.copy_((rows.sum() * reduction_weight(reduction, kept)).reshape(loss.sizes()));
})
ACLNN(CrossEntropyLossGrad, [](Tensor grad, Tensor log_prob, Tensor target, Tensor weight, Tensor grad_z, Tensor lse,
                               std::string reduction, int64_t ignored, double smoothing, double z_scale, Tensor dx) {
  auto kept = target != ignored;
  auto d = wide(log_prob).exp() - smoothing / double(log_prob.size(1));
  d.scatter_add_(1, at::where(kept, target, 0).unsqueeze(1), at::full({target.size(0), 1}, smoothing - 1, d.options()));
  auto rows = at::where(kept, wide(grad).expand_as(kept), at::zeros({}, d.options())) * reduction_weight(reduction, kept);
  store(dx, d * rows.unsqueeze(1));
})

ACLNN(ApplyTopKTopP, [](Tensor logits, Tensor p, Tensor k, Tensor out) {
  if (logits.dim() != 2) throw BadParameter(kParameterInvalid, "logits must be [rows, vocabulary]");
  if (p.defined() && p.scalar_type() != logits.scalar_type())
    throw BadParameter(kParameterInvalid, "p must have the type of logits");
  if (k.defined() && k.scalar_type() != at::kInt) throw BadParameter(kParameterInvalid, "k must be INT32");
  auto [sorted, order] = wide(logits).sort(-1, true);
  auto hidden = at::zeros(sorted.sizes(), at::kBool);
  if (k.defined()) hidden |= at::arange(sorted.size(-1)) >= k.to(at::kLong).unsqueeze(-1);
  if (p.defined()) {
    auto visible = sorted.masked_fill(hidden, -std::numeric_limits<float>::infinity()).softmax(-1);
    hidden |= (visible.cumsum(-1) - visible) >= wide(p).unsqueeze(-1);
  }
  hidden.select(-1, 0).fill_(false);
  auto kept = sorted.masked_fill(hidden, -std::numeric_limits<float>::infinity());
  store(out, at::empty_like(kept).scatter_(-1, order, kept));
})
