// ms-swift's adapter: a small two-layer network after each MLP, whose output is added to the MLP's.
#include <cmath>

#include "hone/base/error.h"
#include "hone/tuner/lora_init.h"
#include "hone/tuner/methods/activation.h"
#include "hone/tuner/methods/method_config.h"
#include "hone/tuner/methods/methods.h"
#include "hone/tuner/targets.h"

namespace hone::tuner {
namespace {

class Bottleneck final : public model::LinearTuner {
 public:
  Bottleneck(int64_t width, int64_t length, Activation activation, at::Generator& generator) : activation_(activation) {
    const double bound = std::sqrt(6.0 / static_cast<double>(width + length));  // Xavier initialization
    const auto matrix = [&](int64_t out, int64_t in) {
      return at::empty({out, in}, at::kFloat).uniform_(-bound, bound, generator);
    };
    const auto bias = [&](int64_t out) { return at::empty({out}, at::kFloat).normal_(0, 1e-6, generator); };
    down_ = matrix(length, width), down_bias_ = bias(length);
    up_ = matrix(width, length), up_bias_ = bias(width);
  }

  Tensor forward(const Call& call) const override {
    auto y = call.product(call.x);
    auto wide = y.to(down_.scalar_type());
    auto answer = at::linear(activation_(at::linear(wide, down_, down_bias_)), up_, up_bias_);
    return (wide + answer).to(y.scalar_type());
  }
  Tensor merged(const Tensor&) const override { HONE_CHECK(false, "the registry says that this method does not merge"); }
  std::vector<model::NamedParameter> tensors() override {
    return {{"adapter_default.linear1.weight", &down_},
            {"adapter_default.linear1.bias", &down_bias_},
            {"adapter_default.linear2.weight", &up_},
            {"adapter_default.linear2.bias", &up_bias_}};
  }

 private:
  Activation activation_;
  Tensor down_, down_bias_, up_, up_bias_;
};

}  // namespace

std::string owner_of_bottleneck(const std::string& path) {
  const auto block = owner_of_reft(path);
  return block.empty() ? block : block + ".mlp";
}

LinearTuners make_bottleneck(const std::vector<LayerShape>& layers, const io::AdapterConfig& config, uint64_t seed) {
  const MethodConfig fields(config);
  const auto activation = activation_called(fields.read<std::string>("act_layer", "gelu"), "adapter_act");
  LinearTuners tuners;
  for (const auto& layer : layers) {
    auto generator = layer_generator(layer.path, seed);
    tuners.push_back(std::make_shared<Bottleneck>(layer.out, fields.count("adapter_length", 128), activation, generator));
  }
  return tuners;
}

void complete_bottleneck(io::AdapterConfig& config, const std::vector<LayerShape>& layers, int64_t) {
  config.is_swift_tuner = true;
  config.targets = {{}, escaped_path(path_of_blocks(layers)) + R"(\.\d+\.mlp)"};
  config.modules_to_save.clear();
  config.extra_fields.update({{"hidden_pos", 0}, {"method_name", "forward"}, {"model_key_mapping", nullptr}});
  for (const auto& layer : layers)
    if (!owner_of_bottleneck(layer.path).empty()) config.extra_fields["dim"] = layer.out;
}

}  // namespace hone::tuner
