#include "hone/tuner/quantize/calibrate.h"

#include "hone/model/decoder.h"

namespace hone::tuner {
namespace {

// Stands around a layer for as long as somebody looks, and changes nothing.
class InputWatch final : public model::LinearTuner {
 public:
  explicit InputWatch(SeenInputs& seen) : seen_(seen) {}

  Tensor forward(const Call& call) const override {
    auto x_ti = call.x.reshape({-1, call.x.size(-1)}).to(at::kFloat);
    auto products = at::matmul(x_ti.t(), x_ti), magnitudes = x_ti.abs().sum(0);
    seen_.products = seen_.products.defined() ? seen_.products + products : products;
    seen_.magnitudes = seen_.magnitudes.defined() ? seen_.magnitudes + magnitudes : magnitudes;
    seen_.tokens += x_ti.size(0);
    return call.product(call.x);
  }
  Tensor merged(const Tensor& weight) const override { return weight; }
  std::vector<model::NamedParameter> tensors() override { return {}; }

 private:
  SeenInputs& seen_;
};

}  // namespace

BlockWalk::BlockWalk(model::CausalLM& model, std::vector<model::Input> texts) : model_(model), texts_(std::move(texts)) {
  at::NoGradGuard no_grad;
  for (const auto& text : texts_) states_.push_back(model_.embedding()(text.tokens_t));
}

std::map<const model::Linear*, SeenInputs> BlockWalk::look(const std::vector<model::Linear*>& layers) {
  at::NoGradGuard no_grad;
  std::map<const model::Linear*, SeenInputs> seen;
  for (auto* layer : layers) layer->tuners.push_back(std::make_shared<InputWatch>(seen[layer]));
  for (size_t i = 0; i < texts_.size(); ++i) model::block_forward(block(), states_[i], model_.pass_over(texts_[i]));
  for (auto* layer : layers) layer->tuners.pop_back();
  return seen;
}

void BlockWalk::step() {
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < texts_.size(); ++i) states_[i] = model::block_forward(block(), states_[i], model_.pass_over(texts_[i]));
  ++at_;
}

}  // namespace hone::tuner
