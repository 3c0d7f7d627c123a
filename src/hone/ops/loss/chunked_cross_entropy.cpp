#include "hone/ops/loss/chunked_cross_entropy.h"

#include "hone/device/autograd.h"
#include "hone/ops/cuda/training.h"
#include "hone/ops/linear/matmul.h"
#include "hone/ops/loss/cross_entropy_rows.h"
#include "hone/ops/newer_torch.h"

namespace hone::ops {
namespace {

constexpr size_t kGpuChunkBytes = size_t{2} << 30;

class ChunkedCrossEntropy {
 public:
  ChunkedCrossEntropy(const OutputHead& head, const LabelledRows& rows, const CrossEntropyOptions& options, bool with_gradient)
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
    torch::autograd::variable_list wanted{x};
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

  const OutputHead& head_;
  const LabelledRows& rows_;
  const LoraMapping& adapter_rows_;
  double smoothing_, scale_;
  bool with_gradient_;
  int64_t chunk_;
  LossAndGrads pass_;
};

}  // namespace

LossAndGrads chunked_loss_and_grads(const OutputHead& head, const LabelledRows& rows, const CrossEntropyOptions& options,
                                    bool with_gradient) {
  return ChunkedCrossEntropy(head, rows, options, with_gradient).run();
}

}  // namespace hone::ops
