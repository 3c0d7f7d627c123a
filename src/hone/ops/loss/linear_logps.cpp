#include "hone/ops/loss/linear_logps.h"

#include "hone/base/error.h"
#include "hone/device/autograd.h"
#include "hone/ops/linear/matmul.h"
#include "hone/ops/loss/cross_entropy_rows.h"
#include "hone/ops/loss/head_logits.h"
#include "hone/ops/loss/multi_target_logps.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What the backward pass needs besides tensors tracked by autograd.
struct LogpsHead : torch::CustomClassHolder {
  Tensor weight, bias, targets_t;
  CrossEntropyOptions options;
  const VocabularyShard* shard = nullptr;  // null: the full vocabulary is local

  TensorList parameters() const { return head_parameters(weight, bias, options.adapters); }
  bool is_plain() const { return !bias.defined() && options.adapters.empty() && !shard; }
};

// Logits of all rows with a target, if they were computed at once: the backward pass need not compute them again.
struct KeptLogits {
  Tensor rows, logits;
};

struct RowLogps {
  Tensor logps, mean_logits;
};

RowLogps row_logps(const Tensor& logits, const Tensor& targets) {
  return {(logits.gather(1, targets) - logits.logsumexp(1, true)).squeeze(1), logits.mean(1)};
}

// Per row, summed over ranks: the target's logit (0 if another rank has it), the sum of exponentials, the sum of logits.
RowLogps row_logps(const Tensor& logits, const Tensor& targets, const VocabularyShard& shard) {
  auto largest = logits.amax(1, true);
  shard.all_reduce_max(largest);
  const auto place = targets - shard.begin;
  const auto foreign = (place < 0).logical_or(place >= logits.size(1));
  auto own = (logits.gather(1, place.clamp(0, logits.size(1) - 1)) - largest).masked_fill(foreign, 0);
  auto sums = at::cat({own, (logits - largest).exp().sum(1, true), logits.sum(1, true)}, 1);
  shard.all_reduce_sum(sums);
  return {sums.select(1, 0) - sums.select(1, 1).log(), sums.select(1, 2) / static_cast<double>(shard.words)};
}

CrossEntropy entropy_of(const Tensor& hidden, const LogpsHead& head, const CrossEntropyOptions& options) {
  if (head.shard) return linear_cross_entropy(hidden, head.weight, head.bias, head.targets_t, options, *head.shard);
  return linear_cross_entropy(hidden, head.weight, head.bias, head.targets_t, options);
}

TargetLogps chunked_logps(const Tensor& hidden, const LogpsHead& head, KeptLogits* kept = nullptr) {
  at::NoGradGuard no_grad;
  auto zeros = at::zeros({hidden.size(0)}, hidden.options().dtype(at::kFloat));
  TargetLogps found{zeros, zeros.clone()};
  auto labelled = labelled_positions(head.targets_t, head.options.target_count);
  const int64_t words = head.shard ? head.shard->largest : head.weight.size(0);
  for (const auto& part : labelled.split(rows_of_chunk(head.options.chunk_bytes, words))) {
    auto logits = head_logits(hidden.index_select(0, part), part, head.weight, head.bias, head.options.adapters,
                              head.options.adapter_rows, head.options.training)
                      .to(at::kFloat);
    if (head.options.scale != 1) logits = logits * head.options.scale;
    auto targets = head.targets_t.index_select(0, part).unsqueeze(1);
    const auto of_rows = head.shard ? row_logps(logits, targets, *head.shard) : row_logps(logits, targets);
    found.logps_t.index_copy_(0, part, of_rows.logps);
    found.mean_logits_t.index_copy_(0, part, of_rows.mean_logits);
    if (kept && part.size(0) == labelled.size(0)) *kept = {part, logits};
  }
  return found;
}

// Inputs: hidden, then the head's parameters. The gradient is that of a cross-entropy weighted by the incoming gradient.
class LinearLogps : public torch::autograd::Function<LinearLogps> {
 public:
  static variable_list forward(AutogradContext* ctx, at::TensorList inputs, const c10::intrusive_ptr<LogpsHead>& head) {
    KeptLogits kept;
    auto found = chunked_logps(inputs[0], *head, head->is_plain() ? &kept : nullptr);
    ctx->save_for_backward({inputs[0], kept.rows, kept.logits});
    ctx->saved_data["wants_hidden"] = inputs[0].requires_grad();
    ctx->saved_data["head"] = c10::IValue::make_capsule(head);
    ctx->mark_non_differentiable({found.mean_logits_t});
    return {found.logps_t, found.mean_logits_t};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    auto head = c10::static_intrusive_pointer_cast<LogpsHead>(ctx->saved_data["head"].toCapsule());
    const bool wants_hidden = ctx->saved_data["wants_hidden"].toBool();
    const auto saved = ctx->get_saved_variables();
    if (saved[2].defined()) return kept_gradients(saved[0], *head, {saved[1], saved[2]}, grads[0], wants_hidden);
    auto hidden = saved[0].detach().requires_grad_(wants_hidden);
    auto options = head->options;
    options.weights_t = -grads[0];
    at::AutoGradMode record(true);
    auto entropy = entropy_of(hidden, *head, options);
    auto parameters = head->parameters();
    variable_list result(parameters.size() + 2), wanted;  // hidden, the parameters, and the head argument itself
    std::vector<size_t> places;
    if (wants_hidden) wanted.push_back(hidden), places.push_back(0);
    for (size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].requires_grad()) wanted.push_back(parameters[i]), places.push_back(i + 1);
    auto found = torch::autograd::grad({entropy.sum}, wanted, {}, std::nullopt, false, /*allow_unused=*/true);
    for (size_t i = 0; i < places.size(); ++i) result[places[i]] = found[i];
    return result;
  }

 private:
  static variable_list kept_gradients(const Tensor& hidden, const LogpsHead& head, const KeptLogits& kept, const Tensor& grad_t,
                                      bool wants_hidden) {
    at::NoGradGuard no_grad;
    auto dlogits = kept.logits.clone();
    const auto at_rows = [&](const Tensor& values) { return values.index_select(0, kept.rows); };
    cross_entropy_rows(dlogits, at_rows(head.targets_t), -at_rows(grad_t), 0, /*into_gradient=*/true);
    if (head.options.scale != 1) dlogits.mul_(head.options.scale);
    dlogits = dlogits.to(hidden.scalar_type());
    variable_list result(3);  // hidden, the weight, and the head argument itself
    if (wants_hidden) result[0] = at::zeros_like(hidden).index_copy_(0, kept.rows, matmul_nn(dlogits, head.weight));
    if (head.weight.requires_grad()) result[1] = matmul_tn(dlogits, at_rows(hidden));
    return result;
  }
};

}  // namespace

TargetLogps linear_logps_plain(const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Tensor& targets,
                               const CrossEntropyOptions& options) {
  auto logits = head_logits_plain(hidden, weight, bias, options.adapters, options.adapter_rows, options.training).to(at::kFloat) *
                options.scale;
  if (targets.dim() == 2) return {logits.log_softmax(1).gather(1, targets), {}};
  auto ignored = targets == kIgnoredTarget;
  auto logps = logits.log_softmax(1).gather(1, targets.masked_fill(ignored, 0).unsqueeze(1)).squeeze(1);
  return {logps.masked_fill(ignored, 0), logits.detach().mean(1).masked_fill(ignored, 0)};
}

TargetLogps linear_logps(const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Tensor& targets,
                         const CrossEntropyOptions& options, const VocabularyShard* shard) {
  if (targets.dim() == 2) {
    HONE_CHECK(!shard, "several targets of a position with a sharded vocabulary");
    return {multi_target_logps(hidden, weight, bias, targets, options), {}};
  }
  auto head = c10::make_intrusive<LogpsHead>();
  head->weight = weight, head->bias = bias, head->targets_t = targets, head->options = options, head->shard = shard;
  std::erase_if(head->options.adapters, [](const auto& adapter) { return !adapter.active; });
  head->options.label_smoothing = 0;
  head->options.training = false;  // both passes compute the same
  if (!at::GradMode::is_enabled()) return chunked_logps(hidden, *head);
  TensorList inputs{hidden};
  for (auto& parameter : head->parameters()) inputs.push_back(parameter);
  auto found = LinearLogps::apply(at::TensorList(inputs), head);
  return {found[0], found[1]};
}

}  // namespace hone::ops
