#include "hone/ops/loss/linear_cross_entropy.h"

#include <limits>

#include "hone/device/autograd.h"
#include "hone/ops/cpu/tiled_cross_entropy.h"
#include "hone/ops/cuda/training.h"
#include "hone/ops/fused_operators.h"
#include "hone/ops/linear/matmul.h"
#include "hone/ops/loss/cross_entropy_rows.h"
#include "hone/ops/loss/head_logits.h"
#include "hone/ops/loss/vocabulary_shard.h"
#include "hone/ops/newer_torch.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The head's parameters, in the order of the node's inputs.
struct Head {
  Tensor weight, bias;
  std::vector<LoraWeights> adapters;
  bool training;
  const VocabularyShard* shard;  // null: the full vocabulary is local

  int64_t words_at_once() const { return shard ? shard->largest : weight.size(0); }
  TensorList parameters() const { return head_parameters(weight, bias, adapters); }
  bool frozen() const {
    return std::ranges::none_of(parameters(), [](const Tensor& parameter) { return parameter.requires_grad(); });
  }
  bool plain() const { return adapters.empty(); }
};

// The rows of a batch that have a target, and their per-row loss settings.
struct Rows {
  Tensor index;  // undefined: all rows
  Tensor hidden, targets, weights;
};

// Rows on a GPU, padded by a few without a target, which have no loss: `target_count` may be more than there are.
Rows bounded_rows(const Tensor& hidden, const Tensor& targets_t, const CrossEntropyOptions& options) {
  const int64_t all = hidden.size(0), bound = bound_of_targets(options.target_count, all);
  auto weights_t = options.weights_t.defined() ? options.weights_t.to(at::kFloat) : Tensor();
  if (bound == all) return {{}, hidden.contiguous(), targets_t, weights_t};
  auto found = at::nonzero_static(targets_t != kIgnoredTarget, bound, /*fill_value=*/all).view(-1);
  Rows rows;
  rows.index = found.clamp_max(all - 1);
  rows.hidden = hidden.index_select(0, rows.index);
  rows.targets = targets_t.index_select(0, rows.index).masked_fill_(found == all, kIgnoredTarget);
  if (weights_t.defined()) rows.weights = weights_t.index_select(0, rows.index);
  return rows;
}

Rows labelled_rows(const Tensor& hidden, const Tensor& targets_t, const Head& head, const CrossEntropyOptions& options) {
  Rows rows;
  if (hidden.is_cuda() && options.target_count >= 0 && !head.shard && options.adapter_rows.empty())
    return bounded_rows(hidden, targets_t, options);
  rows.index = labelled_positions(targets_t, options.target_count);
  rows.hidden = hidden.index_select(0, rows.index);
  rows.targets = targets_t.index_select(0, rows.index);
  if (options.weights_t.defined()) rows.weights = options.weights_t.index_select(0, rows.index).to(at::kFloat);
  return rows;
}

// All results of the forward pass: the loss, and the gradients for an incoming gradient of 1.
struct LossAndGrads {
  Tensor sum, correct, dhidden;
  TensorList dparameters;
};

constexpr size_t kGpuChunkBytes = size_t{2} << 30;

class ChunkedCrossEntropy {
 public:
  ChunkedCrossEntropy(const Head& head, const Rows& rows, const CrossEntropyOptions& options, bool with_gradient)
      : head_(head),
        rows_(rows),
        adapter_rows_(options.adapter_rows),
        smoothing_(options.label_smoothing),
        scale_(options.scale),
        with_gradient_(with_gradient) {
    // By the kernel, logits are only in the hidden states' dtype, and memory allows large products.
    const bool by_kernel = cuda::supports_cross_entropy(rows.hidden, head.words_at_once());
    chunk_ = by_kernel
                 ? rows_of_chunk(std::max(options.chunk_bytes, kGpuChunkBytes), head.words_at_once(), rows.hidden.element_size())
                 : rows_of_chunk(options.chunk_bytes, head.words_at_once());
    // Chunks of about equal size: a short last one would waste a separate product.
    if (int64_t count = rows.hidden.size(0); rows.hidden.is_cuda() && count > chunk_) {
      int64_t chunks = (count + chunk_ - 1) / chunk_;
      chunk_ = ((count + chunks - 1) / chunks + 15) / 16 * 16;
    }
  }

  LossAndGrads run() {
    auto options = rows_.hidden.options();
    pass_.sum = at::zeros({}, options.dtype(at::kFloat));
    pass_.correct = at::zeros({}, options.dtype(at::kLong));
    if (with_gradient_) pass_.dhidden = at::empty_like(rows_.hidden);
    pass_.dparameters.resize(head_.parameters().size());
    for (int64_t begin = 0; begin < rows_.hidden.size(0); begin += chunk_) {
      int64_t count = std::min(chunk_, rows_.hidden.size(0) - begin);
      bool by_hand = head_.plain() && !(with_gradient_ && head_.bias.defined());
      if (by_hand)
        direct_chunk(begin, count);
      else
        recorded_chunk(begin, count);
    }
    return std::move(pass_);
  }

 private:
  RowLosses losses(Tensor& logits, int64_t begin, int64_t count) {
    auto weights = rows_.weights.defined() ? rows_.weights.narrow(0, begin, count) : Tensor();
    const auto targets = rows_.targets.narrow(0, begin, count);
    auto found = head_.shard ? cross_entropy_rows(logits, targets, weights, smoothing_, with_gradient_, *head_.shard)
                             : cross_entropy_rows(logits, targets, weights, smoothing_, with_gradient_);
    pass_.sum.add_(found.sum);
    pass_.correct.add_(found.correct);
    return found;
  }

  Tensor scaled(const Tensor& logits) const { return scale_ == 1 ? logits : logits.to(at::kFloat) * scale_; }
  // Converts the gradient of scaled logits to that of the unscaled ones.
  Tensor unscaled_gradient(const Tensor& gradient, at::ScalarType type) const {
    return scale_ == 1 ? gradient : (gradient * scale_).to(type);
  }

  void direct_chunk(int64_t begin, int64_t count) {
    auto x = rows_.hidden.narrow(0, begin, count);
    auto logits = scaled(matmul_nt(x, head_.weight, head_.bias));
    losses(logits, begin, count);
    if (!with_gradient_) return;
    logits = unscaled_gradient(logits, x.scalar_type());
    auto dhidden = pass_.dhidden.narrow(0, begin, count);
    if (x.is_cuda())
      at::mm_out(dhidden, logits, head_.weight);
    else
      dhidden.copy_(matmul_nn(logits, head_.weight));
    if (head_.weight.requires_grad()) accumulate_weight(logits, x);
  }

  // Accumulated in float32 whatever the weight's dtype; the first chunk allocates the buffer. The product of a single chunk,
  // whose sums are in float32 too, is written as it is.
  void accumulate_weight(const Tensor& dlogits, const Tensor& x) {
    auto& sum = pass_.dparameters[0];
    if (x.is_cuda() && x.size(0) == rows_.hidden.size(0) && x.scalar_type() == head_.weight.scalar_type()) {
      sum = matmul_tn(dlogits, x);
    } else if (dlogits.scalar_type() == at::kFloat && sum.defined()) {
      add_matmul_tn_(sum, dlogits, x);
    } else if (x.is_cuda()) {  // 16-bit products accumulated in float32
      if (sum.defined())
        add_mm_in_float32_(sum, dlogits.t(), x);
      else
        sum = mm_in_float32(dlogits.t(), x);
    } else if (sum.defined()) {
      sum.add_(matmul_tn(dlogits, x));
    } else {
      sum = matmul_tn(dlogits, x).to(at::kFloat);
    }
  }

  // Heads with adapters or a trained bias: the layer's own node computes the gradients of a chunk.
  void recorded_chunk(int64_t begin, int64_t count) {
    at::AutoGradMode record(with_gradient_);
    auto x = rows_.hidden.narrow(0, begin, count).detach().requires_grad_(with_gradient_);
    auto rows = rows_.index.defined() ? rows_.index.narrow(0, begin, count) : Tensor();
    auto recorded = head_logits(x, rows, head_.weight, head_.bias, head_.adapters, adapter_rows_, head_.training);
    auto logits = scaled(recorded.detach());
    losses(logits, begin, count);
    if (!with_gradient_) return;
    auto parameters = head_.parameters();
    variable_list wanted{x};
    std::vector<size_t> places;
    for (size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].requires_grad()) wanted.push_back(parameters[i]), places.push_back(i);
    auto grads = torch::autograd::grad({recorded}, wanted, {unscaled_gradient(logits, recorded.scalar_type())}, std::nullopt,
                                       false, /*allow_unused=*/true);
    at::NoGradGuard no_grad;
    pass_.dhidden.narrow(0, begin, count).copy_(grads[0]);
    for (size_t i = 0; i < places.size(); ++i) {
      auto& sum = pass_.dparameters[places[i]];
      if (grads[i + 1].defined()) sum = sum.defined() ? sum + grads[i + 1] : grads[i + 1].to(at::kFloat);
    }
  }

  const Head& head_;
  const Rows& rows_;
  const LoraMapping& adapter_rows_;
  double smoothing_, scale_;
  bool with_gradient_;
  int64_t chunk_;
  LossAndGrads pass_;
};

LossAndGrads tiled_pass(const Head& head, const Rows& rows, const CrossEntropyOptions& options, bool with_gradient) {
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
  static variable_list forward(AutogradContext* ctx, at::TensorList inputs, const Head& head, const Tensor& targets_t,
                               const CrossEntropyOptions& options, bool with_gradient) {
    auto rows = labelled_rows(inputs[0], targets_t, head, options);
    bool tiled = fused_operators().linear_cross_entropy && head.plain() && !head.shard && head.frozen() &&
                 cpu::supports_tiled(rows.hidden, head.weight, head.bias);
    auto pass =
        tiled ? tiled_pass(head, rows, options, with_gradient) : ChunkedCrossEntropy(head, rows, options, with_gradient).run();
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

CrossEntropy chunked_cross_entropy(const Tensor& hidden, Head head, const Tensor& targets_t, const CrossEntropyOptions& options) {
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
