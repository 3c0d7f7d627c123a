// FourierFT: a layer's update is the inverse Fourier transform of a sparse matrix with fixed non-zero positions.
#include <ATen/CPUGeneratorImpl.h>

#include <map>

#include "hone/tuner/lora_init.h"
#include "hone/tuner/methods/method_config.h"
#include "hone/tuner/methods/methods.h"

namespace hone::tuner {
namespace {

class FourierFt final : public model::LinearTuner {
 public:
  FourierFt(Tensor spectrum, Tensor places, const LayerShape& layer, double scale)
      : spectrum_(std::move(spectrum)), places_(std::move(places)), in_(layer.in), out_(layer.out), scale_(scale) {}

  Tensor forward(const Call& call) const override {
    auto change = update().to(spectrum_.scalar_type());
    return (call.product(call.x) + at::linear(call.x.to(change.scalar_type()), change)).to(call.x.scalar_type());
  }
  Tensor merged(const Tensor& weight) const override { return weight + update(); }
  std::vector<model::NamedParameter> tensors() override { return {{"fourierft_spectrum", &spectrum_}}; }

 private:
  Tensor update() const {
    auto values = spectrum_.to(at::kFloat);
    auto dense = at::zeros({out_ * in_}, values.options()).index_add(0, places_.to(values.device()), values).view({out_, in_});
    return at::real(at::fft_ifft2(dense)) * scale_;
  }

  Tensor spectrum_, places_;  // [frequencies]
  int64_t in_, out_;
  double scale_;
};

}  // namespace

LinearTuners make_fourierft(const std::vector<LayerShape>& layers, const io::AdapterConfig& config, uint64_t seed) {
  const MethodConfig fields(config);
  const int64_t frequencies = fields.count("n_frequency", 1000);
  if (const Json* pattern = fields.find("n_frequency_pattern"); pattern && !pattern->empty())
    fields.complain("n_frequency_pattern", "used, which hone does not support");
  const bool zero_start = fields.read<bool>("init_weights", false);
  const auto key = static_cast<uint64_t>(fields.read<int64_t>("random_loc_seed", 777));
  std::map<std::pair<int64_t, int64_t>, Tensor> places;  // the same for layers of one shape
  LinearTuners tuners;
  for (const auto& layer : layers) {
    if (frequencies > layer.in * layer.out)
      throw UserError(
          ExitCode::usage,
          fmt::format("FourierFT: {} frequencies, and {} has {} weights", frequencies, layer.path, layer.in * layer.out),
          "lower `fourier_n_frequency`");
    auto& drawn = places[{layer.in, layer.out}];
    if (!drawn.defined()) {
      auto generator = at::detail::createCPUGenerator(key);
      drawn = at::randperm(layer.in * layer.out, generator, at::kLong).narrow(0, 0, frequencies).clone();
    }
    auto generator = layer_generator(layer.path, seed);
    auto spectrum =
        zero_start ? at::zeros({frequencies}, at::kFloat) : at::empty({frequencies}, at::kFloat).normal_(0, 1, generator);
    tuners.push_back(std::make_shared<FourierFt>(spectrum, drawn, layer, fields.read<double>("scaling", 150)));
  }
  return tuners;
}

}  // namespace hone::tuner
