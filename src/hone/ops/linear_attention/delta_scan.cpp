#include "hone/ops/linear_attention/delta_scan.h"

#include "hone/device/autograd.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Scanned {
  Tensor before_nhkv, values_nhcv;  // the state before each chunk, and what is written into it
};

// Chunks and heads are one batch dimension of the products.
Tensor flat(const Tensor& x) { return x.flatten(0, 1); }
// To write to: flatten would copy where strides allow no view.
Tensor flat_view(const Tensor& x) { return x.view({x.size(0) * x.size(1), x.size(2), x.size(3)}); }
Tensor transposed(const Tensor& x) { return x.transpose(-1, -2); }

Scanned scan(const ChunkTerms& terms, const std::vector<int64_t>& step_sizes, Tensor states_shkv) {
  Scanned found{
      at::empty({terms.w_nhck.size(0), terms.w_nhck.size(1), terms.w_nhck.size(3), terms.u_nhcv.size(3)}, terms.u_nhcv.options()),
      terms.u_nhcv.clone(at::MemoryFormat::Contiguous)};
  int64_t first = 0;
  for (int64_t size : step_sizes) {
    auto here = [&](const Tensor& all) { return all.narrow(0, first, size); };
    auto state = flat_view(states_shkv.narrow(0, 0, size)), values = flat_view(here(found.values_nhcv));
    flat_view(here(found.before_nhkv)).copy_(state);
    values.baddbmm_(flat(here(terms.w_nhck)), state, 1, -1);
    state.mul_(here(terms.decay_nh).reshape({-1, 1, 1})).baddbmm_(transposed(flat(here(terms.k_nhck))), values);
    first += size;
  }
  return found;
}

Tensor outputs_of(const ChunkTerms& terms, const Scanned& found) {
  auto y = at::bmm(flat(terms.q_nhck), flat(found.before_nhkv));
  return y.baddbmm_(flat(terms.p_nhcc), flat(found.values_nhcv)).view_as(terms.u_nhcv);
}

Tensor zero_states(const ChunkTerms& terms, const std::vector<int64_t>& step_sizes) {
  return at::zeros({step_sizes.front(), terms.w_nhck.size(1), terms.w_nhck.size(3), terms.u_nhcv.size(3)},
                   terms.u_nhcv.options());
}

// Inputs: q, k, w, u, p, decay.
class DeltaScan : public torch::autograd::Function<DeltaScan> {
 public:
  static Tensor forward(AutogradContext* ctx, at::TensorList inputs, const std::vector<int64_t>& step_sizes) {
    const auto terms = terms_of(inputs);
    const auto found = scan(terms, step_sizes, zero_states(terms, step_sizes));
    auto saved = inputs.vec();
    saved.push_back(found.before_nhkv);
    saved.push_back(found.values_nhcv);
    ctx->save_for_backward(saved);
    ctx->saved_data["step_sizes"] = step_sizes;
    return outputs_of(terms, found);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto terms = terms_of(at::TensorList(saved).slice(0, 6));
    const auto before = flat(saved[6]), values = flat(saved[7]), dy = flat(grads[0].contiguous());
    const auto step_sizes = ctx->saved_data["step_sizes"].toIntVector();
    auto dvalues = at::bmm(transposed(flat(terms.p_nhcc)), dy).view_as(terms.u_nhcv);
    auto dreads = at::bmm(transposed(flat(terms.q_nhck)), dy).view_as(saved[6]);  // of the states, by what reads them
    auto dafter = at::empty_like(saved[6]);                                       // of the state after each chunk
    auto dstates = zero_states(terms, step_sizes);
    int64_t first = saved[6].size(0);
    for (size_t step = step_sizes.size(); step-- > 0;) {
      const int64_t size = step_sizes[step];
      first -= size;
      auto here = [&](const Tensor& all) { return all.narrow(0, first, size); };
      auto dstate = flat_view(dstates.narrow(0, 0, size)), dvalue = flat_view(here(dvalues));
      flat_view(here(dafter)).copy_(dstate);
      dvalue.baddbmm_(flat(here(terms.k_nhck)), dstate);
      dstate.mul_(here(terms.decay_nh).reshape({-1, 1, 1})).add_(flat(here(dreads)));
      dstate.baddbmm_(transposed(flat(here(terms.w_nhck))), dvalue, 1, -1);
    }
    const auto states_t = transposed(before);
    auto dq = at::bmm(dy, states_t), dk = at::bmm(values, transposed(flat(dafter)));
    auto dw = at::bmm(flat(dvalues), states_t).neg_(), dp = at::bmm(dy, transposed(values));
    auto ddecay = (saved[6] * dafter).sum({2, 3});
    return {dq.view_as(terms.q_nhck),
            dk.view_as(terms.k_nhck),
            dw.view_as(terms.w_nhck),
            dvalues,
            dp.view_as(terms.p_nhcc),
            ddecay,
            Tensor()};
  }

 private:
  static ChunkTerms terms_of(at::TensorList list) { return {list[0], list[1], list[2], list[3], list[4], list[5]}; }
};

}  // namespace

Tensor delta_scan(const ChunkTerms& terms, const LinearAttentionMetadata& metadata, const Tensor& states_shkv) {
  if (states_shkv.defined()) return outputs_of(terms, scan(terms, metadata.step_sizes, states_shkv));
  const TensorList inputs{terms.q_nhck, terms.k_nhck, terms.w_nhck, terms.u_nhcv, terms.p_nhcc, terms.decay_nh};
  return DeltaScan::apply(at::TensorList(inputs), metadata.step_sizes);
}

}  // namespace hone::ops
