#include "hone/ops/moe/moe_permute.h"

#include "hone/device/autograd.h"
#include "hone/ops/cuda/grouped_gemm.h"
#include "hone/ops/cuda/moe.h"
#include "hone/ops/cuda/moe_routing.h"
#include "hone/ops/linear/matmul.h"
#include "hone/ops/newer_torch.h"
#include "hone/ops/npu/boxed.h"
#include "hone/ops/npu/experts.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// body(expert, first row, rows) for every expert with rows.
template <class Body>
void for_groups(const Tensor& counts, Body body) {
  auto on_host = counts.to(at::kCPU, at::kLong).contiguous();
  const auto* count = on_host.const_data_ptr<int64_t>();
  for (int64_t expert = 0, begin = 0; expert < on_host.size(0); begin += count[expert++])
    if (count[expert] > 0) body(expert, begin, count[expert]);
}

// libtorch's grouped product in one launch: 16-bit numbers, rows aligned to 16 bytes. The host does not wait for the counts.
bool is_grouped_mm(const Tensor& rows, const Tensor& matrices) {
  return rows.is_cuda() && rows.scalar_type() == at::kBFloat16 && supports_grouped_mm(matrices);
}

Tensor ends_of(const Tensor& counts) { return counts.cumsum(0).to(at::kInt); }

// Matrices are viewed as [out, in], their layout in models.
Tensor multiplied(const Tensor& rows, const Tensor& matrices, const Tensor& counts) {
  if (npu::supports(rows, "npu_grouped_matmul")) return npu::grouped_matmul(rows, matrices, counts);
  if (cuda::supports_grouped_gemm(rows, matrices)) return cuda::grouped_gemm(rows, matrices, counts);
  if (is_grouped_mm(rows, matrices)) return grouped_mm(rows, matrices, ends_of(counts));
  auto y = at::empty({rows.size(0), matrices.size(2)}, rows.options());
  for_groups(counts, [&](int64_t expert, int64_t begin, int64_t count) {
    y.narrow(0, begin, count).copy_(matmul_nt(rows.narrow(0, begin, count), matrices.select(0, expert).t()));
  });
  return y;
}

Tensor rows_gradient(const Tensor& grad, const Tensor& matrices, const Tensor& counts) {
  auto back = matrices.transpose(1, 2);
  if (npu::supports(grad, "npu_grouped_matmul")) return npu::grouped_matmul(grad, back, counts);
  if (cuda::supports_grouped_gemm(grad, back)) return cuda::grouped_gemm(grad, back, counts);
  if (is_grouped_mm(grad, back)) return grouped_mm(grad, back, ends_of(counts));
  auto drows = at::empty({grad.size(0), matrices.size(1)}, grad.options());
  for_groups(counts, [&](int64_t expert, int64_t begin, int64_t count) {
    drows.narrow(0, begin, count).copy_(matmul_nn(grad.narrow(0, begin, count), back.select(0, expert)));
  });
  return drows;
}

Tensor matrices_gradient(const Tensor& rows, const Tensor& grad, const Tensor& matrices, const Tensor& counts) {
  if (npu::supports(rows, "npu_grouped_matmul")) return npu::grouped_outer(rows, grad, counts);
  if (is_grouped_mm(rows, matrices)) return grouped_mm(grad.t(), rows, ends_of(counts)).transpose(1, 2);
  auto dmatrices = at::zeros({matrices.size(0), matrices.size(2), matrices.size(1)}, matrices.options());
  for_groups(counts, [&](int64_t expert, int64_t begin, int64_t count) {
    auto to = dmatrices.select(0, expert), x = rows.narrow(0, begin, count), dy = grad.narrow(0, begin, count);
    if (is_upcast(x))
      to.copy_(matmul_tn(dy, x));
    else
      at::mm_out(to, dy.t(), x);
  });
  return dmatrices.transpose(1, 2);
}

class GroupedMatmul : public torch::autograd::Function<GroupedMatmul> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& rows, const Tensor& matrices, const Tensor& counts) {
    ctx->save_for_backward({matrices.requires_grad() ? rows : Tensor(), matrices, counts});
    return multiplied(rows, matrices, counts);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    auto saved = ctx->get_saved_variables();
    const auto &rows = saved[0], &matrices = saved[1], &counts = saved[2];
    auto grad = grads[0].contiguous();
    auto drows = ctx->needs_input_grad(0) ? rows_gradient(grad, matrices, counts) : Tensor();
    auto dmatrices = ctx->needs_input_grad(1) ? matrices_gradient(rows, grad, matrices, counts) : Tensor();
    return {drows, dmatrices, Tensor()};
  }
};

// Each token's row at all of its places, and the sum of the rows there.
Tensor rows_at_places(const Tensor& tokens_th, const Tensor& places_r, int64_t choices) {
  if (cuda::supports_combine(tokens_th, choices)) return cuda::copy_rows(tokens_th, places_r, choices);
  return tokens_th.index_select(0, places_r.argsort().div(choices, "floor"));
}
Tensor sum_at_places(const Tensor& rows_rh, const Tensor& places_r, int64_t choices) {
  if (cuda::supports_combine(rows_rh, choices)) return cuda::combine_rows(rows_rh, places_r, {}, choices);
  auto own = rows_rh.index_select(0, places_r);
  return own.view({-1, choices, own.size(1)}).sum(1);
}

// A token's gradient is the sum over its rows, gathered rather than scattered: deterministic on any device.
class MoePermute : public torch::autograd::Function<MoePermute> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& tokens_th, const Tensor& experts_tk, int64_t num_experts) {
    PermutedTokens sent;
    if (cuda::supports_expert_sort(experts_tk, num_experts)) {
      const auto sorted = cuda::sort_by_expert(experts_tk, num_experts);
      const auto rows = rows_at_places(tokens_th.contiguous(), sorted.places_r, experts_tk.size(1));
      sent = {rows, sorted.places_r, sorted.order_r, sorted.counts_e};
    } else {
      sent = to_experts_plain(tokens_th, experts_tk, num_experts);
    }
    ctx->save_for_backward({sent.permutation_r});
    ctx->saved_data["choices"] = experts_tk.size(1);
    ctx->mark_non_differentiable({sent.permutation_r, sent.order_r, sent.counts_e});
    return {sent.rows_rh, sent.permutation_r, sent.order_r, sent.counts_e};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto places = ctx->get_saved_variables()[0];
    return {sum_at_places(grads[0].contiguous(), places, ctx->saved_data["choices"].toInt()), Tensor(), Tensor()};
  }
};

// The adjoint of MoePermute.
class MoeUnpermuteWeighted : public torch::autograd::Function<MoeUnpermuteWeighted> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& rows_rh, const Tensor& places_r, int64_t choices) {
    ctx->save_for_backward({places_r});
    ctx->saved_data["choices"] = choices;
    return sum_at_places(rows_rh, places_r, choices);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto places = ctx->get_saved_variables()[0];
    return {rows_at_places(grads[0].contiguous(), places, ctx->saved_data["choices"].toInt()), Tensor(), Tensor()};
  }
};

class MoeUnpermute : public torch::autograd::Function<MoeUnpermute> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& rows_rh, const Tensor& places_r, const Tensor& weights_tk) {
    ctx->save_for_backward({rows_rh, places_r, weights_tk});
    const auto choices = weights_tk.size(1);
    if (cuda::supports_combine(rows_rh, choices)) return cuda::combine_rows(rows_rh, places_r, weights_tk, choices);
    return from_experts_plain(rows_rh, places_r, weights_tk);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    auto saved = ctx->get_saved_variables();
    const auto &rows_rh = saved[0], &places_r = saved[1], &weights_tk = saved[2];
    if (cuda::supports_combine(rows_rh, weights_tk.size(1))) {
      auto found = cuda::combine_rows_backward(grads[0], rows_rh, places_r, weights_tk, ctx->needs_input_grad(2));
      return {found.rows_rh, Tensor(), found.weights_tk.defined() ? found.weights_tk.to(weights_tk.scalar_type()) : Tensor()};
    }
    Tensor drows, dweights;
    if (ctx->needs_input_grad(0)) {
      auto choices = places_r.argsort();
      auto shares = weights_tk.reshape({-1}).index_select(0, choices).to(rows_rh.scalar_type());
      drows = grads[0].index_select(0, choices.div(weights_tk.size(1), "floor")).mul_(shares.unsqueeze(1));
    }
    if (ctx->needs_input_grad(2)) {
      auto own = rows_rh.index_select(0, places_r).view({weights_tk.size(0), weights_tk.size(1), -1});
      dweights = (own * grads[0].unsqueeze(1)).sum(2, /*keepdim=*/false, at::kFloat).to(weights_tk.scalar_type());
    }
    return {drows, Tensor(), dweights};
  }
};

}  // namespace

Tensor tokens_per_expert(const Tensor& experts_tk, int64_t num_experts) {
  auto chosen = experts_tk.reshape({-1});
  return at::zeros({num_experts}, chosen.options()).scatter_add_(0, chosen, at::ones_like(chosen));
}

PermutedTokens to_experts_plain(const Tensor& tokens_th, const Tensor& experts_tk, int64_t num_experts) {
  auto order = std::get<1>(experts_tk.reshape({-1}).sort(/*stable=*/true, /*dim=*/0, /*descending=*/false));
  return {tokens_th.index_select(0, order.div(experts_tk.size(1), "floor")), order.argsort().to(at::kInt), order.to(at::kInt),
          tokens_per_expert(experts_tk, num_experts)};
}

PermutedTokens moe_permute(const Tensor& tokens_th, const Tensor& experts_tk, int64_t num_experts) {
  if (npu::supports(tokens_th, "npu_moe_token_permute")) {
    auto sent = npu::to_experts(tokens_th, experts_tk);
    sent.counts_e = tokens_per_expert(experts_tk, num_experts);
    return sent;
  }
  auto sent = MoePermute::apply(tokens_th, experts_tk, num_experts);
  return {sent[0], sent[1], sent[2], sent[3]};
}

Tensor from_experts_plain(const Tensor& rows_rh, const Tensor& places_r, const Tensor& weights_tk) {
  auto own = rows_rh.index_select(0, places_r.to(at::kLong)).view({weights_tk.size(0), weights_tk.size(1), -1});
  return (own * weights_tk.unsqueeze(2).to(own.scalar_type())).sum(1);
}

Tensor moe_unpermute(const Tensor& rows_rh, const Tensor& places_r, const Tensor& weights_tk) {
  bool fused = npu::supports(rows_rh, "npu_moe_token_unpermute");
  return fused ? npu::from_experts(rows_rh, places_r, weights_tk) : MoeUnpermute::apply(rows_rh, places_r, weights_tk);
}

Tensor moe_unpermute_weighted(const Tensor& rows_rh, const Tensor& places_r, int64_t choices) {
  return MoeUnpermuteWeighted::apply(rows_rh, places_r, choices);
}

Tensor grouped_matmul_plain(const Tensor& rows, const Tensor& matrices, const Tensor& counts) {
  auto on_host = counts.to(at::kCPU);
  TensorList parts;
  int64_t begin = 0;
  for (int64_t expert = 0; expert < matrices.size(0); ++expert) {
    int64_t count = on_host[expert].item<int64_t>();
    parts.push_back(at::mm(rows.narrow(0, begin, count), matrices[expert]));
    begin += count;
  }
  return at::cat(parts);
}

bool supports_grouped_mm(const Tensor& matrices) {
  return kHasGroupedMm && matrices.is_cuda() && matrices.scalar_type() == at::kBFloat16 && matrices.size(1) % 8 == 0 &&
         matrices.size(2) % 8 == 0;
}

Tensor grouped_matmul(const Tensor& rows, const Tensor& matrices, const Tensor& counts) {
  return GroupedMatmul::apply(rows, matrices, counts);
}

}  // namespace hone::ops
