#include "hone/ops/loss/multi_target_logps.h"

#include "hone/device/autograd.h"
#include "hone/ops/loss/head_logits.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SharedHead : torch::CustomClassHolder {
  Tensor weight, bias, targets_tk;
  CrossEntropyOptions options;

  TensorList parameters() const { return head_parameters(weight, bias, options.adapters); }

  int64_t rows_at_once() const { return rows_of_chunk(options.chunk_bytes, weight.size(0)); }

  // In the head's dtype, unscaled.
  Tensor logits(const Tensor& x, int64_t begin) const {
    const auto places = at::arange(begin, begin + x.size(0), targets_tk.options());
    return head_logits(x, places, weight, bias, options.adapters, options.adapter_rows, /*training=*/false);
  }

  Tensor scaled(const Tensor& logits) const {
    auto wide = logits.to(at::kFloat);
    return options.scale == 1 ? wide : wide * options.scale;
  }
};

struct RowsLogps {
  Tensor logps_tk, logsumexp_t;
};

RowsLogps chunked_rows(const Tensor& hidden, const SharedHead& head) {
  at::NoGradGuard no_grad;
  const auto options = hidden.options().dtype(at::kFloat);
  RowsLogps found{at::empty(head.targets_tk.sizes(), options), at::empty({hidden.size(0), 1}, options)};
  const int64_t most = head.rows_at_once();
  for (int64_t begin = 0; begin < hidden.size(0); begin += most) {
    const int64_t count = std::min(most, hidden.size(0) - begin);
    const auto logits = head.scaled(head.logits(hidden.narrow(0, begin, count), begin));
    const auto all = logits.logsumexp(1, true);
    found.logps_tk.narrow(0, begin, count).copy_(logits.gather(1, head.targets_tk.narrow(0, begin, count)) - all);
    found.logsumexp_t.narrow(0, begin, count).copy_(all);
  }
  return found;
}

// Inputs: hidden, then the head's parameters.
class MultiTargetLogps : public torch::autograd::Function<MultiTargetLogps> {
 public:
  static Tensor forward(AutogradContext* ctx, at::TensorList inputs, const c10::intrusive_ptr<SharedHead>& head) {
    auto found = chunked_rows(inputs[0], *head);
    ctx->save_for_backward({inputs[0], found.logsumexp_t});
    ctx->saved_data["wants_hidden"] = inputs[0].requires_grad();
    ctx->saved_data["head"] = c10::IValue::make_capsule(head);
    return found.logps_tk;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto head = c10::static_intrusive_pointer_cast<SharedHead>(ctx->saved_data["head"].toCapsule());
    const bool wants_hidden = ctx->saved_data["wants_hidden"].toBool();
    const auto saved = ctx->get_saved_variables();
    const auto& hidden = saved[0];
    const auto parameters = head->parameters();
    variable_list result(parameters.size() + 2);  // hidden, the parameters, and the head argument itself
    if (wants_hidden) result[0] = at::empty_like(hidden);
    const int64_t most = head->rows_at_once();
    for (int64_t begin = 0; begin < hidden.size(0); begin += most) {
      const int64_t count = std::min(most, hidden.size(0) - begin);
      at::AutoGradMode record(true);
      auto x = hidden.narrow(0, begin, count).detach().requires_grad_(wants_hidden);
      const auto logits = head->logits(x, begin);
      if (!logits.requires_grad()) continue;  // rows whose adapter is not on the head
      variable_list wanted;
      std::vector<size_t> places;
      if (wants_hidden) wanted.push_back(x), places.push_back(0);
      for (size_t i = 0; i < parameters.size(); ++i)
        if (parameters[i].requires_grad()) wanted.push_back(parameters[i]), places.push_back(i + 1);
      const auto dlogits = gradient_of_logits(logits, *head, saved[1], grads[0], begin);
      const auto found = torch::autograd::grad({logits}, wanted, {dlogits}, std::nullopt, false, /*allow_unused=*/true);
      at::NoGradGuard no_grad;
      for (size_t i = 0; i < places.size(); ++i) {
        auto& sum = result[places[i]];
        if (!found[i].defined()) continue;
        if (places[i] == 0)
          sum.narrow(0, begin, count).copy_(found[i]);
        else
          sum = sum.defined() ? sum + found[i] : found[i].to(at::kFloat);
      }
    }
    for (size_t i = 0; i < parameters.size(); ++i)
      if (result[i + 1].defined()) result[i + 1] = result[i + 1].to(parameters[i].scalar_type());
    return result;
  }

 private:
  // A target's logit gets its gradient, and all logits lose the sum of the row's gradients times their probability.
  static Tensor gradient_of_logits(const Tensor& logits, const SharedHead& head, const Tensor& logsumexp_t, const Tensor& grad_tk,
                                   int64_t begin) {
    at::NoGradGuard no_grad;
    const auto count = logits.size(0);
    const auto grads = grad_tk.narrow(0, begin, count);
    auto dlogits = (head.scaled(logits) - logsumexp_t.narrow(0, begin, count)).exp_().mul_(-grads.sum(1, true));
    dlogits.scatter_add_(1, head.targets_tk.narrow(0, begin, count), grads);
    if (head.options.scale != 1) dlogits.mul_(head.options.scale);
    return dlogits.to(logits.scalar_type());
  }
};

}  // namespace

Tensor multi_target_logps(const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Tensor& targets_tk,
                          const CrossEntropyOptions& options) {
  auto head = c10::make_intrusive<SharedHead>();
  head->weight = weight, head->bias = bias, head->targets_tk = targets_tk, head->options = options;
  std::erase_if(head->options.adapters, [](const auto& adapter) { return !adapter.active; });
  if (!at::GradMode::is_enabled()) return chunked_rows(hidden, *head).logps_tk;
  TensorList inputs{hidden};
  for (auto& parameter : head->parameters()) inputs.push_back(parameter);
  return MultiTargetLogps::apply(at::TensorList(inputs), head);
}

}  // namespace hone::ops
