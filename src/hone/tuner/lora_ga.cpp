#include "hone/tuner/lora_ga.h"

#include <cmath>

#include "hone/base/error.h"

namespace hone::tuner {
namespace {

constexpr int64_t kIterations = 4;

// Which of the gradient's first 2r singular directions each matrix uses.
struct Directions {
  Tensor a, b;
};

Directions directions(const std::string& kind, int64_t rank, at::Generator& generator) {
  const Tensor all = at::arange(2 * rank, at::kLong);
  const Tensor first = all.slice(0, 0, rank), second = all.slice(0, rank);
  if (kind == "ArBr") return {all.slice(0, 1, 2 * rank, 2), all.slice(0, 0, 2 * rank, 2)};
  if (kind == "A2rBr") return {second, first};
  if (kind == "ArB2r") return {first, second};
  const Tensor shuffled = at::randperm(2 * rank, generator, at::kLong);
  return {shuffled.slice(0, 0, rank), shuffled.slice(0, rank)};
}

// The norm of each row of A and column of B, which are initialized to one.
double length_of(const LoraGaConfig& config, const Tensor& weight, int64_t rank, double scale, at::Generator& generator) {
  if (config.scale == "gd") return 1.0 / scale;
  if (config.scale == "stable") return std::pow(static_cast<double>(weight.size(0)), 0.25) / std::sqrt(config.gamma);
  if (config.scale == "unit") return 1.0;
  const Tensor values = low_rank_svd(weight.to(at::kFloat), 4 * rank, kIterations, generator).s.slice(0, 0, rank);
  return (values / scale).sqrt().mean().item<double>();
}

}  // namespace

LoraPair lora_ga_init(const Tensor& weight, const Tensor& gradient, int64_t rank, double scale, const LoraGaConfig& config,
                      at::Generator& generator) {
  at::NoGradGuard no_grad;
  if (2 * rank > std::min(weight.size(0), weight.size(1)))
    throw UserError(ExitCode::usage,
                    fmt::format("init_weights lora-ga with rank {}: the weight is {} x {}", rank, weight.size(0), weight.size(1)),
                    "it takes twice the rank in directions of the gradient; lower `lora_rank`");
  const Svd svd = low_rank_svd(gradient.to(at::kFloat), 4 * rank, kIterations, generator);
  const auto chosen = directions(config.direction, rank, generator);
  const double length = length_of(config, weight, rank, scale, generator);
  const Tensor a = (svd.vh.index_select(0, chosen.a.to(weight.device())) * length).contiguous();
  const Tensor b = (svd.u.index_select(1, chosen.b.to(weight.device())) * length).contiguous();
  return subtract_from_base(weight, a, b, scale);
}

}  // namespace hone::tuner
