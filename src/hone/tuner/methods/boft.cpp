// BOFT: a layer's input is rotated by a product of sparse orthogonal matrices, the factors of a butterfly, and its outputs are
// scaled.
#include "hone/tuner/lora_init.h"
#include "hone/tuner/methods/method_config.h"
#include "hone/tuner/methods/methods.h"
#include "hone/tuner/methods/rotation.h"

namespace hone::tuner {
namespace {

// The permutation of inputs for factor `index`: within groups that double from factor to factor, alternating half blocks come
// first.
Tensor butterfly_order(int64_t width, int64_t block_size, int64_t index, int64_t factors) {
  if (factors == 1) return at::arange(width, at::kLong);
  const int64_t blocks = width / block_size, group = width / (blocks >> index), half = block_size / 2;
  return at::arange(width, at::kLong).view({width / group, group / (2 * half), 2, half}).transpose(1, 2).reshape({width});
}

class Boft final : public model::LinearTuner {
 public:
  Boft(Tensor blocks, Tensor scale, double dropout) : blocks_(std::move(blocks)), scale_(std::move(scale)), dropout_(dropout) {
    const int64_t size = blocks_.size(2), width = blocks_.size(1) * size;
    for (int64_t i = 0; i < blocks_.size(0); ++i) orders_.push_back(butterfly_order(width, size, i, blocks_.size(0)));
  }

  Tensor forward(const Call& call) const override {
    auto rotation = rotations();
    const int64_t factors = blocks_.size(0);
    if (call.training && dropout_ > 0) {  // of one factor, redrawn
      auto& drawn = rotation[static_cast<size_t>(at::randint(factors, {1}, at::kLong).item<int64_t>())];
      drawn = multiplicative_dropout(drawn, dropout_);
    }
    auto x = call.x.to(at::kFloat);
    for (size_t i = rotation.size(); i-- > 0;) x = rotate(x, rotation[i], i);
    auto y = call.product(x.to(call.x.scalar_type()));
    if (call.bias.defined()) y = y - call.bias;
    y = y * scale_.squeeze(-1);
    return (call.bias.defined() ? y + call.bias : y).to(call.x.scalar_type());
  }
  Tensor merged(const Tensor& weight) const override {
    auto result = weight;
    const auto rotation = rotations();
    for (size_t i = 0; i < rotation.size(); ++i) result = rotate(result, rotation[i].transpose(1, 2), i);
    return result * scale_.to(at::kFloat);
  }
  std::vector<model::NamedParameter> tensors() override { return {{"boft_R", &blocks_}, {"boft_s", &scale_}}; }

 private:
  TensorList rotations() const {
    auto raw = blocks_.to(at::kFloat).flatten(0, 1);
    return cayley((raw - raw.transpose(1, 2)) * 0.5).view(blocks_.sizes()).unbind(0);
  }
  Tensor rotate(const Tensor& x, const Tensor& blocks, size_t factor) const {
    const auto order = orders_[factor].to(x.device()), back = at::argsort(order);
    return block_diagonal_matmul(x.index_select(-1, back), blocks).index_select(-1, order);
  }

  Tensor blocks_, scale_;  // [factors, blocks, size, size], [out, 1]
  TensorList orders_;      // by factor
  double dropout_;
};

void require_butterfly(bool fits, const LayerShape& layer, int64_t size, int64_t factors) {
  if (!fits)
    throw UserError(ExitCode::usage,
                    fmt::format("BOFT: blocks of size {} and {} butterfly factors do not fit {}, whose input is {} wide", size,
                                factors, layer.path, layer.in),
                    "the width must be a multiple of block_size * 2^(factors - 1), and the size even with more than one factor");
}

}  // namespace

void follow_butterfly_factors(io::AdapterConfig& config, const io::NamedTensorList& tensors) {
  for (const auto& [name, tensor] : tensors)
    if (name.ends_with(".boft_R") && tensor.dim() == 4) config.extra_fields["boft_n_butterfly_factor"] = tensor.size(0);
}

LinearTuners make_boft(const std::vector<LayerShape>& layers, const io::AdapterConfig& config, uint64_t seed) {
  const MethodConfig fields(config);
  const int64_t size = fields.count("boft_block_size", 4, 0), count = fields.count("boft_block_num", 0, 0);
  const int64_t factors = fields.count("boft_n_butterfly_factor", 1);
  if ((size == 0) == (count == 0))
    throw UserError(ExitCode::usage, fmt::format("BOFT with {} blocks of size {}", count, size),
                    "set either boft_block_size or boft_block_num, and the other to 0");
  const bool random_start = !fields.read<bool>("init_weights", true);
  LinearTuners tuners;
  for (const auto& layer : layers) {
    const int64_t block = size ? size : layer.in / std::max<int64_t>(1, count);
    require_butterfly(block > 0 && factors < 32 && layer.in % (block << (factors - 1)) == 0 && (factors == 1 || block % 2 == 0),
                      layer, block, factors);
    auto blocks = at::zeros({factors, layer.in / block, block, block}, at::kFloat), scale = at::ones({layer.out, 1}, at::kFloat);
    auto generator = layer_generator(layer.path, seed);
    if (random_start) blocks.normal_(0, 0.1, generator), scale.normal_(1, 0.1, generator);
    tuners.push_back(std::make_shared<Boft>(blocks, scale, fields.read<double>("boft_dropout", 0)));
  }
  return tuners;
}

}  // namespace hone::tuner
