// OFT: a layer's input is rotated by a block-diagonal orthogonal matrix before the product.
#include <cmath>

#include "hone/tuner/lora_init.h"
#include "hone/tuner/methods/method_config.h"
#include "hone/tuner/methods/methods.h"
#include "hone/tuner/methods/rotation.h"

namespace hone::tuner {
namespace {

struct OftSettings {
  int64_t blocks, block_size, series_terms;
  bool series, shared_block, constrained;
  double freedom, dropout;
};

class Oft final : public model::LinearTuner {
 public:
  Oft(Tensor angles, int64_t in, const OftSettings& settings)
      : angles_(std::move(angles)), repeats_(in / settings.block_size), settings_(settings) {
    upper_ = at::triu_indices(settings.block_size, settings.block_size, /*offset=*/1);
  }

  Tensor forward(const Call& call) const override {
    auto rotation = blocks();
    if (call.training && settings_.dropout > 0) rotation = multiplicative_dropout(rotation, settings_.dropout);
    auto rotated = block_diagonal_matmul(call.x.to(rotation.scalar_type()), whole(rotation));
    return call.product(rotated.to(call.x.scalar_type()));
  }
  Tensor merged(const Tensor& weight) const override { return block_diagonal_matmul(weight, whole(blocks()).transpose(1, 2)); }
  std::vector<model::NamedParameter> tensors() override { return {{"oft_R.weight", &angles_}}; }

 private:
  Tensor skew() const {
    const int64_t size = settings_.block_size;
    auto places = (upper_[0] * size + upper_[1]).to(angles_.device());
    auto angles = angles_.to(at::kFloat);
    auto upper = at::zeros({angles.size(0), size * size}, angles.options()).index_add(1, places, angles).view({-1, size, size});
    return upper - upper.transpose(1, 2);
  }

  // Constrained OFT keeps every block near the identity: larger rotations are scaled back, in place and without gradient.
  void draw_back() const {
    at::NoGradGuard no_grad;
    const double limit = settings_.freedom / std::sqrt(static_cast<double>(angles_.size(0)));
    auto length = at::linalg_vector_norm(skew(), 2, at::IntArrayRef{1, 2}).unsqueeze(1);
    angles_.copy_(at::where(length <= limit, angles_, angles_ * (limit / length)));
  }

  Tensor blocks() const {
    if (settings_.constrained) draw_back();
    return settings_.series ? cayley_series(skew(), settings_.series_terms) : cayley(skew());
  }
  Tensor whole(const Tensor& blocks) const { return settings_.shared_block ? blocks.expand({repeats_, -1, -1}) : blocks; }

  mutable Tensor angles_;  // [blocks, size (size - 1) / 2]: the upper triangle of each skew-symmetric block
  Tensor upper_;
  int64_t repeats_;
  OftSettings settings_;
};

// The divisor of `width` nearest to the requested size; the lower of two.
int64_t nearest_divisor(int64_t width, int64_t wanted) {
  if (wanted >= width) return width;
  int64_t below = wanted, above = wanted;
  while (below > 1 && width % below != 0) --below;
  while (width % above != 0) ++above;
  return wanted - below <= above - wanted ? below : above;
}

}  // namespace

LinearTuners make_oft(const std::vector<LayerShape>& layers, const io::AdapterConfig& config, uint64_t seed) {
  const MethodConfig fields(config);
  const int64_t rank = fields.count("r", 0, 0), size = fields.count("oft_block_size", 32, 0);
  if ((rank == 0) == (size == 0))
    throw UserError(ExitCode::usage, fmt::format("OFT with {} blocks of size {}", rank, size),
                    "set either the number of blocks (oft_rank) or their size (oft_block_size), and the other to 0");
  OftSettings settings{.blocks = 0,
                       .block_size = 0,
                       .series_terms = fields.count("num_cayley_neumann_terms", 5),
                       .series = fields.read<bool>("use_cayley_neumann", true),
                       .shared_block = fields.read<bool>("block_share", false),
                       .constrained = fields.read<bool>("coft", false),
                       .freedom = fields.read<double>("eps", 6e-5),
                       .dropout = fields.read<double>("module_dropout", 0)};
  const bool random_start = !fields.read<bool>("init_weights", true);
  LinearTuners tuners;
  for (const auto& layer : layers) {
    settings.block_size = size ? nearest_divisor(layer.in, size) : layer.in / nearest_divisor(layer.in, rank);
    settings.blocks = settings.shared_block ? 1 : layer.in / settings.block_size;
    auto angles = at::zeros({settings.blocks, settings.block_size * (settings.block_size - 1) / 2}, at::kFloat);
    auto generator = layer_generator(layer.path, seed);
    if (random_start) angles.normal_(0, 0.1, generator);
    tuners.push_back(std::make_shared<Oft>(angles, layer.in, settings));
  }
  return tuners;
}

}  // namespace hone::tuner
