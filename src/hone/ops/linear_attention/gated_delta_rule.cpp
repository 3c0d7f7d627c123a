#include "hone/ops/linear_attention/gated_delta_rule.h"

#include <cmath>

#include "hone/device/autograd.h"
#include "hone/ops/linear_attention/delta_scan.h"
#include "hone/ops/linear_attention/recurrent_step.h"

namespace hone::ops {
namespace {

constexpr double kNormEps = 1e-6;

Tensor l2_norm(const Tensor& x) { return x * (x.square().sum(-1, true) + kNormEps).rsqrt(); }

double scale_of(const Tensor& q) { return 1 / std::sqrt(static_cast<double>(q.size(-1))); }

// [T, heads, …] -> [chunks, heads, chunk, …]
Tensor chunked(const Tensor& x, const LinearAttentionMetadata& metadata) {
  const auto rows = to_chunks(x, metadata);
  auto sizes = rows.sizes().vec();
  sizes[0] = metadata.chunk;
  sizes.insert(sizes.begin(), -1);
  return rows.view(sizes).transpose(1, 2).to(at::kFloat, false, false, at::MemoryFormat::Contiguous);
}

// The effect of a chunk on any state, computed from its positions alone. Within a chunk, each position's value lacks what those
// before it wrote: a triangular system.
ChunkTerms chunk_terms(const DeltaRuleInput& input, const LinearAttentionMetadata& metadata) {
  const int64_t key_heads = input.k_thk.size(1), groups = input.v_thv.size(1) / key_heads, chunk = metadata.chunk;
  // Heads as [key heads, value heads of each], so that keys and queries are the same for a group.
  auto keyed = [&](const Tensor& x) { return l2_norm(chunked(x, metadata)).unsqueeze(2); };
  auto grouped = [&](const Tensor& x) { return chunked(x, metadata).unflatten(1, {key_heads, groups}); };
  auto flat = [](const Tensor& x) { return x.flatten(1, 2); };
  const auto q = keyed(input.q_thk) * scale_of(input.q_thk), k = keyed(input.k_thk), v = grouped(input.v_thv);
  const auto beta = grouped(input.beta_th).unsqueeze(-1), decay = grouped(input.log_decay_th).cumsum(-1);  // from the start
  const auto upper = at::ones({chunk, chunk}, at::TensorOptions(at::kBool).device(v.device())).triu(1);
  const auto between = (decay.unsqueeze(-1) - decay.unsqueeze(-2)).masked_fill(upper, -INFINITY).exp();
  const auto from_start = decay.exp().unsqueeze(-1), total = decay.narrow(-1, chunk - 1, 1);
  const auto k_t = k.transpose(-1, -2);
  const auto system = at::matmul(k, k_t) * between * beta;
  const auto known = at::cat({v * beta, k * (beta * from_start)}, -1);
  const auto solved = at::linalg_solve_triangular(system, known, /*upper=*/false, /*left=*/true, /*unitriangular=*/true);
  const int64_t value_dim = v.size(-1), key_dim = k.size(-1);
  return {.q_nhck = flat(q * from_start),
          .k_nhck = flat(k * (total - decay).exp().unsqueeze(-1)),
          .w_nhck = flat(solved.narrow(-1, value_dim, key_dim)),
          .u_nhcv = flat(solved.narrow(-1, 0, value_dim)),
          .p_nhcc = flat(at::matmul(q, k_t) * between),
          .decay_nh = flat(total.squeeze(-1).exp())};
}

Tensor by_chunks(const DeltaRuleInput& input, const LinearAttentionMetadata& metadata, const Tensor& states_shkv) {
  const auto y_nhcv = delta_scan(chunk_terms(input, metadata), metadata, states_shkv);
  return from_chunks(y_nhcv.transpose(1, 2).flatten(0, 1), metadata).to(input.v_thv.scalar_type());
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

cuda::DeltaRuleRows rows_of(const DeltaRuleInput& input) {
  return {input.q_thk, input.k_thk, input.v_thv, input.log_decay_th, input.beta_th};
}

// Inputs: q, k, v, log_decay, beta. Nothing else is saved.
class CudaDeltaRule : public torch::autograd::Function<CudaDeltaRule> {
 public:
  static Tensor forward(AutogradContext* ctx, at::TensorList inputs, const Tensor& chunks_n2, const Tensor& segments_s) {
    auto saved = inputs.vec();
    saved.push_back(chunks_n2);
    saved.push_back(segments_s);
    ctx->save_for_backward(saved);
    return cuda::delta_rule({inputs[0], inputs[1], inputs[2], inputs[3], inputs[4]}, {chunks_n2, segments_s});
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto found = cuda::delta_rule_backward(grads[0].contiguous(), {saved[0], saved[1], saved[2], saved[3], saved[4]},
                                                 {saved[5], saved[6]});
    return {found.q, found.k, found.v, found.log_decay, found.beta, Tensor(), Tensor()};
  }
};

}  // namespace

DeltaRuleInput DeltaRuleInput::rows(int64_t begin, int64_t count) const {
  auto part = [&](const Tensor& x) { return x.narrow(0, begin, count); };
  return {part(q_thk), part(k_thk), part(v_thv), part(log_decay_th), part(beta_th)};
}

Tensor gated_delta_position(const DeltaRuleInput& position, Tensor& states_shkv) {
  const int64_t shared = position.v_thv.size(1) / position.k_thk.size(1);
  auto normalized = [&](const Tensor& x_shk) { return l2_norm(x_shk.to(at::kFloat)).repeat_interleave(shared, 1); };
  auto of_heads = [](const Tensor& x_sh) { return x_sh.to(at::kFloat).unsqueeze(-1).unsqueeze(-1); };
  const auto q = normalized(position.q_thk).mul(scale_of(position.q_thk)).unsqueeze(-2);
  const auto k = normalized(position.k_thk).unsqueeze(-1);
  states_shkv = states_shkv * of_heads(position.log_decay_th).exp();
  const auto missing = position.v_thv.to(at::kFloat).unsqueeze(-2) - at::matmul(k.transpose(-1, -2), states_shkv);
  states_shkv = at::addcmul(states_shkv, k, missing * of_heads(position.beta_th));
  return at::matmul(q, states_shkv).squeeze(-2);
}

Tensor gated_delta_rule_plain(const DeltaRuleInput& input, const CuSeqlens& segments) {
  const auto options = at::TensorOptions(input.v_thv.device()).dtype(at::kFloat);
  TensorList outputs;
  for (int64_t i = 0; i < segments.count(); ++i) {
    auto state = at::zeros({1, input.v_thv.size(1), input.k_thk.size(2), input.v_thv.size(2)}, options);
    for (int64_t row = segments.offsets[static_cast<size_t>(i)]; row < segments.offsets[static_cast<size_t>(i) + 1]; ++row)
      outputs.push_back(gated_delta_position(input.rows(row, 1), state));
  }
  return at::cat(outputs).to(input.v_thv.scalar_type());
}

Tensor gated_delta_rule(const DeltaRuleInput& input, const LinearAttentionMetadata& metadata, const StateSlots* states) {
  if (!states && cuda::supports_delta_rule(rows_of(input))) {
    const TensorList inputs{input.q_thk, input.k_thk, input.v_thv, input.log_decay_th, input.beta_th};
    return CudaDeltaRule::apply(at::TensorList(inputs), metadata.of_segments.chunks_n2, metadata.of_segments.segments_s);
  }
  if (!states) return by_chunks(input, metadata, {});
  const auto& all_shkv = states->state->recurrent_shkv;
  TensorList outputs;
  if (metadata.steps > 0)
    outputs.push_back(
        gated_delta_step(input.rows(0, metadata.steps), *states->state, states->slots_s.narrow(0, 0, metadata.steps)));
  const int64_t rows = metadata.segments.total();
  if (rows > 0 && cuda::supports_delta_rule(rows_of(input)) && all_shkv.is_contiguous()) {
    const auto slots_s = states->slots_s.narrow(0, metadata.steps, metadata.segments.count());
    outputs.push_back(cuda::delta_rule(rows_of(input.rows(metadata.steps, rows)), metadata.of_segments, all_shkv, slots_s));
  } else if (rows > 0) {
    const auto order = at::tensor(metadata.order, at::kLong).to(all_shkv.device()) + metadata.steps;
    const auto slots = states->slots_s.index_select(0, order);
    auto own_shkv = all_shkv.index_select(0, slots);
    outputs.push_back(by_chunks(input.rows(metadata.steps, rows), metadata, own_shkv));
    all_shkv.index_copy_(0, slots, own_shkv);
  }
  return outputs.size() == 1 ? outputs[0] : at::cat(outputs);
}

}  // namespace hone::ops
