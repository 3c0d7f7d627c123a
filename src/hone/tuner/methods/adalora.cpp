// AdaLoRA: a low-rank update in the form of a singular value decomposition, B diag(E) A. The least important values of E are set
// to zero during training by optim/rank_allocation.
#include <algorithm>

#include "hone/tuner/lora_init.h"
#include "hone/tuner/methods/method_config.h"
#include "hone/tuner/methods/methods.h"

namespace hone::tuner {
namespace {

class Adalora final : public model::LinearTuner {
 public:
  Adalora(Tensor a, Tensor e, Tensor b, double scale, double dropout)
      : a_(std::move(a)), e_(std::move(e)), b_(std::move(b)), scale_(scale), dropout_(dropout) {}

  Tensor forward(const Call& call) const override {
    auto x = call.x.to(a_.scalar_type());
    if (call.training && dropout_ > 0) x = at::dropout(x, dropout_, /*train=*/true);
    auto update = at::linear(at::linear(x, a_ * e_), b_) * scale_;
    return (call.product(call.x) + update).to(call.x.scalar_type());
  }
  Tensor merged(const Tensor& weight) const override { return weight + b_.to(at::kFloat).mm((a_ * e_).to(at::kFloat)) * scale_; }
  std::vector<model::NamedParameter> tensors() override { return {{"lora_A", &a_}, {"lora_B", &b_}, {"lora_E", &e_}}; }

 private:
  Tensor a_, e_, b_;  // [rank, in], [rank, 1], [out, rank]
  double scale_, dropout_;
};

// PEFT omits pruned ranks from its files; "rank_pattern" then lists the remaining ones.
int64_t kept_rank(const MethodConfig& fields, const std::string& path, int64_t first_rank) {
  const Json* pattern = fields.find("rank_pattern");
  if (!pattern || pattern->empty()) return first_rank;
  for (const auto& [name, kept] : pattern->items()) {
    if (name.find(path + ".lora_E") == std::string::npos) continue;
    if (!kept.is_array()) fields.complain("rank_pattern", "not a map of lists");
    return std::ranges::count(kept, Json(true));
  }
  return first_rank;
}

}  // namespace

LinearTuners make_adalora(const std::vector<LayerShape>& layers, const io::AdapterConfig& config, uint64_t seed) {
  const MethodConfig fields(config);
  const int64_t first_rank = fields.count("init_r", 12);
  if (config.dora) throw UserError(ExitCode::usage, "AdaLoRA with DoRA", "leave `use_dora` out");
  const double alpha = config.alpha > 0 ? config.alpha : static_cast<double>(first_rank);
  const double scale = alpha / (static_cast<double>(first_rank) + 1e-5);
  const double deviation = 0.02, e_deviation = config.init == "false" ? 1.0 : 0.0;
  LinearTuners tuners;
  for (const auto& layer : layers) {
    auto generator = layer_generator(layer.path, seed);
    const int64_t rank = kept_rank(fields, layer.path, first_rank);
    const auto normal = [&](at::IntArrayRef shape, double spread) {
      return at::empty(shape, at::kFloat).normal_(0, 1, generator).mul_(spread);
    };
    auto a = normal({rank, layer.in}, deviation), b = normal({layer.out, rank}, deviation), e = normal({rank, 1}, e_deviation);
    tuners.push_back(std::make_shared<Adalora>(a, e, b, scale, config.dropout));
  }
  return tuners;
}

void complete_adalora(io::AdapterConfig& config, const std::vector<LayerShape>&, int64_t steps) {
  const MethodConfig fields(config);
  const int64_t first = fields.read<int64_t>("tinit", 0), last = fields.read<int64_t>("tfinal", 0);
  if (steps > 0 && first >= steps - last)
    throw UserError(
        ExitCode::usage,
        fmt::format("AdaLoRA has {} steps before and {} after it prunes ranks, and the run has {}", first, last, steps),
        "lower `adalora_tinit` or `adalora_tfinal`, or train longer");
  config.extra_fields["total_step"] = std::max<int64_t>(1, steps);
  config.extra_fields["rank_pattern"] = nullptr;  // the file contains all ranks, pruned ones with a zero in E
}

}  // namespace hone::tuner
