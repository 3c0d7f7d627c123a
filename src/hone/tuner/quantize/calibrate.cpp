#include "hone/tuner/quantize/calibrate.h"

namespace hone::tuner {
namespace {

// Wraps a layer during calibration and changes nothing.
class InputWatch final : public model::LinearTuner {
 public:
  explicit InputWatch(CalibrationStats& seen) : seen_(seen) {}

  Tensor forward(const Call& call) const override {
    auto x_ti = call.x.reshape({-1, call.x.size(-1)}).to(at::kFloat);
    auto products = at::matmul(x_ti.t(), x_ti), magnitudes = x_ti.abs().sum(0);
    seen_.hessian = seen_.hessian.defined() ? seen_.hessian + products : products;
    seen_.abs_sums = seen_.abs_sums.defined() ? seen_.abs_sums + magnitudes : magnitudes;
    seen_.tokens += x_ti.size(0);
    return call.product(call.x);
  }
  Tensor merged(const Tensor& weight) const override { return weight; }
  std::vector<model::NamedParameter> tensors() override { return {}; }

 private:
  CalibrationStats& seen_;
};

}  // namespace

BlockwiseCalibration::BlockwiseCalibration(model::CausalLM& model, std::vector<model::ForwardInput> texts)
    : model_(model), texts_(std::move(texts)) {
  at::NoGradGuard no_grad;
  for (const auto& text : texts_) states_.push_back(model_.embed(text));
}

std::map<const model::Linear*, CalibrationStats> BlockwiseCalibration::collect(const std::vector<model::Linear*>& layers) {
  at::NoGradGuard no_grad;
  std::map<const model::Linear*, CalibrationStats> seen;
  for (auto* layer : layers) layer->tuners.push_back(std::make_shared<InputWatch>(seen[layer]));
  for (size_t i = 0; i < texts_.size(); ++i) model_.run_blocks(states_[i], at_, at_ + 1, texts_[i]);
  for (auto* layer : layers) layer->tuners.pop_back();
  return seen;
}

void BlockwiseCalibration::step() {
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < texts_.size(); ++i) states_[i] = model_.run_blocks(states_[i], at_, at_ + 1, texts_[i]);
  ++at_;
}

}  // namespace hone::tuner
