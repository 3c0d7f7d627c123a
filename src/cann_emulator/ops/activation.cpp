// Activations, softmax, norms, losses, with their gradients.
#include "cann_emulator/ops/operator.h"

using namespace cann;

namespace {

std::optional<Tensor> maybe(const Tensor& x) { return x.defined() ? std::optional(x) : std::nullopt; }

}  // namespace

ACLNN(Silu, [](Tensor x, Tensor out) { store(out, at::silu(x)); })
ACLNN(SiluBackward, [](Tensor grad, Tensor x, Tensor out) { store(out, at::silu_backward(grad, x)); })
ACLNN(Gelu, [](Tensor x, Tensor out) { store(out, at::gelu(x)); })
ACLNN(GeluBackward, [](Tensor grad, Tensor x, Tensor out) { store(out, at::gelu_backward(grad, x)); })
ACLNN(GeluV2, [](Tensor x, int64_t tanh, Tensor out) { store(out, at::gelu(x, tanh ? "tanh" : "none")); })
ACLNN(GeluBackwardV2,
      [](Tensor grad, Tensor x, std::string approximate, Tensor out) { store(out, at::gelu_backward(grad, x, approximate)); })
ACLNN(SigmoidBackward, [](Tensor grad, Tensor y, Tensor out) { store(out, at::sigmoid_backward(grad, y)); })
ACLNN(TanhBackward, [](Tensor grad, Tensor y, Tensor out) { store(out, at::tanh_backward(grad, y)); })
ACLNN(ThresholdBackward,
      [](Tensor grad, Tensor x, Scalar threshold, Tensor out) { store(out, at::threshold_backward(grad, x, threshold)); })
ACLNN(Softplus, [](Tensor x, Scalar beta, Scalar threshold, Tensor out) { store(out, at::softplus(x, beta, threshold)); })
ACLNN(SoftplusBackward, [](Tensor grad, Tensor x, Scalar beta, Scalar threshold, Tensor out) {
  store(out, at::softplus_backward(grad, x, beta, threshold));
})
ACLNN(LogSigmoid, [](Tensor x, Tensor out) { store(out, at::log_sigmoid(x)); })
ACLNN(LogSigmoidForward, [](Tensor x, Tensor out, Tensor buffer) {
  auto [y, kept] = at::log_sigmoid_forward(x);
  store(out, y);
  if (buffer.numel() == kept.numel()) store(buffer, kept);
})
ACLNN(LogSigmoidBackward, [](Tensor grad, Tensor x, Tensor buffer, Tensor out) {
  store(out, at::log_sigmoid_backward(grad, x, std::get<1>(at::log_sigmoid_forward(x))));
})
ACLNN(Softmax, [](Tensor x, int64_t dim, Tensor out) { store(out, at::softmax(x, dim, out.scalar_type())); })
ACLNN(SoftmaxBackward, [](Tensor grad, Tensor y, int64_t dim, Tensor out) {
  store(out, at::_softmax_backward_data(grad, y, dim, y.scalar_type()));
})
ACLNN(LogSoftmax, [](Tensor x, int64_t dim, Tensor out) { store(out, at::log_softmax(x, dim, out.scalar_type())); })
ACLNN(LogSoftmaxBackward, [](Tensor grad, Tensor y, int64_t dim, Tensor out) {
  store(out, at::_log_softmax_backward_data(grad, y, dim, y.scalar_type()));
})
ACLNN(NLLLoss, [](Tensor x, Tensor target, Tensor weight, int64_t reduction, int64_t ignored, Tensor out, Tensor total) {
  auto [loss, weights] = at::nll_loss_forward(x, target.to(at::kLong), maybe(weight), reduction, ignored);
  store(out, loss);
  if (total.numel() == weights.numel()) total.copy_(weights.reshape(total.sizes()));
})
ACLNN(NLLLossBackward,
      [](Tensor grad, Tensor x, Tensor target, Tensor weight, int64_t reduction, int64_t ignored, Tensor total, Tensor out) {
        store(out, at::nll_loss_backward(grad, x, target.to(at::kLong), maybe(weight), reduction, ignored, total.reshape({})));
      })
ACLNN(LayerNorm, [](Tensor x, Ints shape, Tensor weight, Tensor bias, double eps, Tensor out, Tensor mean, Tensor rstd) {
  auto [y, m, r] = at::native_layer_norm(x, shape, maybe(weight), maybe(bias), eps);
  store(out, y), store(mean, m), store(rstd, r);
})
ACLNN(LayerNormBackward, [](Tensor grad, Tensor x, Ints shape, Tensor mean, Tensor rstd, Tensor weight, Tensor bias, Bools mask,
                            Tensor dx, Tensor dweight, Tensor dbias) {
  auto [a, b, c] = at::native_layer_norm_backward(grad, x, shape, mean, rstd, maybe(weight), maybe(bias),
                                                  {bool(mask[0]), bool(mask[1]), bool(mask[2])});
  if (mask[0]) store(dx, a);
  if (mask[1]) store(dweight, b);
  if (mask[2]) store(dbias, c);
})
ACLNN(MseLoss, [](Tensor x, Tensor target, int64_t reduction, Tensor out) { store(out, at::mse_loss(x, target, reduction)); })
ACLNN(MseLossBackward, [](Tensor grad, Tensor x, Tensor target, int64_t reduction, Tensor out) {
  store(out, at::mse_loss_backward(grad, x, target, reduction));
})
