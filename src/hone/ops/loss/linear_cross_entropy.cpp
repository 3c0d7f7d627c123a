#include "hone/ops/loss/linear_cross_entropy.h"

#include <limits>

#include "hone/device/autograd.h"
#include "hone/ops/cpu/tiled_cross_entropy.h"
#include "hone/ops/fused_operators.h"
#include "hone/ops/loss/chunked_cross_entropy.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Rows on a GPU, padded by a few without a target, which have no loss: `target_count` may be more than there are.
LabelledRows bounded_rows(const Tensor& hidden, const Tensor& targets_t, const CrossEntropyOptions& options) {
  const int64_t all = hidden.size(0), bound = bound_of_targets(options.target_count, all);
  auto weights_t = options.weights_t.defined() ? options.weights_t.to(at::kFloat) : Tensor();
  if (bound == all) return {{}, hidden.contiguous(), targets_t, weights_t};
  auto found = at::nonzero_static(targets_t != kIgnoredTarget, bound, /*fill_value=*/all).view(-1);
  LabelledRows rows;
  rows.index = found.clamp_max(all - 1);
  rows.hidden = hidden.index_select(0, rows.index);
  rows.targets = targets_t.index_select(0, rows.index).masked_fill_(found == all, kIgnoredTarget);
  if (weights_t.defined()) rows.weights = weights_t.index_select(0, rows.index);
  return rows;
}

LabelledRows labelled_rows(const Tensor& hidden, const Tensor& targets_t, const OutputHead& head,
                           const CrossEntropyOptions& options) {
  LabelledRows rows;
  if (hidden.is_cuda() && options.target_count >= 0 && !head.shard && options.adapter_rows.empty())
    return bounded_rows(hidden, targets_t, options);
  rows.index = labelled_positions(targets_t, options.target_count);
  rows.hidden = hidden.index_select(0, rows.index);
  rows.targets = targets_t.index_select(0, rows.index);
  if (options.weights_t.defined()) rows.weights = options.weights_t.index_select(0, rows.index).to(at::kFloat);
  return rows;
}

LossAndGrads tiled_pass(const OutputHead& head, const LabelledRows& rows, const CrossEntropyOptions& options,
                        bool with_gradient) {
  auto hidden = options.scale == 1 ? rows.hidden : rows.hidden * options.scale;  // float32 here
  auto found = cpu::tiled_cross_entropy(hidden, head.weight, rows.targets, rows.weights, options.label_smoothing, with_gradient);
  if (with_gradient && options.scale != 1) found.dhidden.mul_(options.scale);
  return {found.losses.sum(), found.correct.sum(), found.dhidden, TensorList(head.parameters().size())};
}

// On a GPU the last row may occur more than once, but at most once with a gradient.
Tensor scattered(const Tensor& rows, const Tensor& index, int64_t count) {
  auto whole = at::zeros({count, rows.size(1)}, rows.options());
  return rows.is_cuda() ? whole.index_add_(0, index, rows) : whole.index_copy_(0, index, rows);
}

// Times a number on the device. libtorch's product of a large tensor and a single number is not vectorized on a GPU, that of a
// list is.
Tensor times_scalar(const Tensor& x, const Tensor& scalar) {
  const auto factor = scalar.to(x.scalar_type());
  return x.is_cuda() && factor.dim() == 0 ? at::_foreach_mul({x}, factor)[0] : x * factor;
}

// Inputs: hidden, then the head's parameters.
class LinearCrossEntropy : public torch::autograd::Function<LinearCrossEntropy> {
 public:
  static variable_list forward(AutogradContext* ctx, at::TensorList inputs, const OutputHead& head, const Tensor& targets_t,
                               const CrossEntropyOptions& options, bool with_gradient) {
    auto rows = labelled_rows(inputs[0], targets_t, head, options);
    bool tiled = fused_operators().linear_cross_entropy && head.plain() && !head.shard && head.frozen() &&
                 cpu::supports_tiled(rows.hidden, head.weight, head.bias);
    auto pass =
        tiled ? tiled_pass(head, rows, options, with_gradient) : chunked_loss_and_grads(head, rows, options, with_gradient);
    variable_list saved{rows.index, pass.dhidden};
    for (size_t i = 0; i < pass.dparameters.size(); ++i) {
      auto& grad = pass.dparameters[i];
      saved.push_back(grad.defined() ? grad.to(inputs[i + 1].scalar_type()) : Tensor());
      grad.reset();
    }
    if (with_gradient) ctx->save_for_backward(std::move(saved));
    ctx->saved_data["tokens"] = inputs[0].size(0);
    ctx->mark_non_differentiable({pass.correct});
    return {pass.sum, pass.correct};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    auto saved = ctx->get_saved_variables();
    const auto &scale = grads[0], &index = saved[0], &dhidden = saved[1];
    auto found = times_scalar(dhidden, scale);
    if (index.defined()) found = scattered(found, index, ctx->saved_data["tokens"].toInt());
    variable_list result{found};
    for (size_t i = 2; i < saved.size(); ++i) result.push_back(saved[i].defined() ? times_scalar(saved[i], scale) : Tensor());
    result.resize(result.size() + 4);  // head, targets, options, with_gradient
    return result;
  }
};

CrossEntropy chunked_cross_entropy(const Tensor& hidden, OutputHead head, const Tensor& targets_t,
                                   const CrossEntropyOptions& options) {
  std::ranges::copy_if(options.adapters, std::back_inserter(head.adapters), [](const auto& adapter) { return adapter.active; });
  bool with_gradient = at::GradMode::is_enabled() && (hidden.requires_grad() || !head.frozen());
  TensorList inputs{hidden};
  for (auto& parameter : head.parameters()) inputs.push_back(parameter);
  auto found = LinearCrossEntropy::apply(at::TensorList(inputs), head, targets_t, options, with_gradient);
  auto count = options.target_count >= 0 ? at::full({}, options.target_count, targets_t.options().device(at::kCPU))
                                         : (targets_t != kIgnoredTarget).sum();
  return {found[0], found[1], count};
}

}  // namespace

int64_t bound_of_targets(int64_t count, int64_t rows) {
  constexpr int64_t kSizes = 8;
  const int64_t step = std::max<int64_t>((rows + kSizes - 1) / kSizes, 16), bound = (count + step - 1) / step * step;
  return bound * 10 >= rows * 9 ? rows : bound;
}

// NPUs lack nonzero_static: a stable sort puts these rows first.
Tensor labelled_positions(const Tensor& targets_t, int64_t count) {
  auto labelled = targets_t != kIgnoredTarget;
  if (count < 0 || targets_t.is_cpu()) return at::nonzero(labelled).view(-1);
  if (!labelled.is_privateuseone()) return at::nonzero_static(labelled, count).view(-1);
  return std::get<1>(labelled.to(at::kFloat).sort(/*stable=*/true, /*dim=*/0, /*descending=*/true)).narrow(0, 0, count);
}

CrossEntropy linear_cross_entropy_plain(const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Tensor& targets_t,
                                        const CrossEntropyOptions& options) {
  auto logits = head_logits_plain(hidden, weight, bias, options.adapters, options.adapter_rows, options.training).to(at::kFloat) *
                options.scale;
  auto losses = at::cross_entropy_loss(logits, targets_t, {}, at::Reduction::None, kIgnoredTarget, options.label_smoothing);
  auto labelled = targets_t != kIgnoredTarget;
  auto correct = (logits.argmax(-1) == targets_t).logical_and(labelled);
  return {(options.weights_t.defined() ? losses * options.weights_t : losses).sum(), correct.sum(), labelled.sum()};
}

CrossEntropy linear_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Tensor& targets_t,
                                  const CrossEntropyOptions& given) {
  const auto& fused = fused_operators();
  if (!fused.linear_cross_entropy && !fused.cross_entropy)
    return linear_cross_entropy_plain(hidden, weight, bias, targets_t, given);
  auto options = given;
  if (!fused.linear_cross_entropy) options.chunk_bytes = std::numeric_limits<size_t>::max() / 2;  // all logits at once
  return chunked_cross_entropy(hidden, {weight, bias, {}, options.training, nullptr}, targets_t, options);
}

CrossEntropy linear_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Tensor& targets_t,
                                  const CrossEntropyOptions& options, const VocabularyShard& shard) {
  return chunked_cross_entropy(hidden, {weight, bias, {}, options.training, &shard}, targets_t, options);
}

}  // namespace hone::ops
