// VeRA: one pair of frozen random matrices for all layers; each layer scales the pair's ranks and its own outputs.
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "hone/tuner/methods/method_config.h"
#include "hone/tuner/methods/methods.h"
#include "hone/tuner/targets.h"

namespace hone::tuner {
namespace {

struct VeraProjection {
  Tensor a, b;  // [rank, widest in], [widest out, rank]
};

class Vera final : public model::LinearTuner {
 public:
  Vera(std::shared_ptr<VeraProjection> projection, const LayerShape& layer, Tensor ranks, Tensor outputs, double dropout)
      : projection_(std::move(projection)),
        in_(layer.in),
        out_(layer.out),
        ranks_(std::move(ranks)),
        outputs_(std::move(outputs)),
        dropout_(dropout) {}

  Tensor forward(const Call& call) const override {
    auto x = call.x.to(ranks_.scalar_type());
    if (call.training && dropout_ > 0) x = at::dropout(x, dropout_, /*train=*/true);
    auto update = outputs_ * at::linear(ranks_ * at::linear(x, a()), b());
    return (call.product(call.x) + update).to(call.x.scalar_type());
  }
  Tensor merged(const Tensor& weight) const override {
    return weight + (outputs_.unsqueeze(1) * b()).to(at::kFloat).mm((ranks_.unsqueeze(1) * a()).to(at::kFloat));
  }
  std::vector<model::NamedParameter> tensors() override { return {{"vera_lambda_b", &outputs_}, {"vera_lambda_d", &ranks_}}; }
  std::vector<model::NamedParameter> shared() override {
    return {{"base_model.vera_A", &projection_->a}, {"base_model.vera_B", &projection_->b}};
  }

 private:
  Tensor a() const { return projection_->a.narrow(1, 0, in_); }
  Tensor b() const { return projection_->b.narrow(0, 0, out_); }

  std::shared_ptr<VeraProjection> projection_;
  int64_t in_, out_;
  Tensor ranks_, outputs_;  // lambda_d [rank], lambda_b [out]
  double dropout_;
};

// Drawn as in PEFT, from its key: files may omit them.
Tensor kaiming_uniform(int64_t rows, int64_t columns, at::Generator& generator) {
  const double bound = std::sqrt(3.0) * std::sqrt(2.0) / std::sqrt(static_cast<double>(columns));
  return at::empty({rows, columns}, at::kFloat).uniform_(-bound, bound, generator);
}

}  // namespace

LinearTuners make_vera(const std::vector<LayerShape>& layers, const io::AdapterConfig& config, uint64_t) {
  const MethodConfig fields(config);
  const int64_t rank = fields.count("r", 256);
  const auto dropout = fields.read<double>("vera_dropout", 0), first_rank = fields.read<double>("d_initial", 0.1);
  const bool random_start = !fields.read<bool>("init_weights", true);
  int64_t widest_in = 0, widest_out = 0;
  for (const auto& layer : layers) widest_in = std::max(widest_in, layer.in), widest_out = std::max(widest_out, layer.out);
  auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(fields.read<int64_t>("projection_prng_key", 0)));
  auto projection = std::make_shared<VeraProjection>();
  projection->a = kaiming_uniform(rank, widest_in, generator);
  projection->b = kaiming_uniform(widest_out, rank, generator);
  LinearTuners tuners;
  for (const auto& layer : layers) {
    auto ranks = random_start ? at::empty({rank}, at::kFloat).normal_(0, 1, generator) : at::full({rank}, first_rank, at::kFloat);
    auto outputs = random_start ? at::ones({layer.out}, at::kFloat) : at::zeros({layer.out}, at::kFloat);
    tuners.push_back(std::make_shared<Vera>(projection, layer, ranks, outputs, dropout));
  }
  return tuners;
}

// ms-swift's rule: if the targets' shapes differ, only those shaped like the first target whose name contains a v are kept.
void complete_vera(io::AdapterConfig& config, const std::vector<LayerShape>& layers, int64_t) {
  auto& names = config.targets.names;
  using Shape = std::pair<int64_t, int64_t>;
  std::map<std::string, std::set<Shape>> shapes;
  std::set<Shape> all;
  for (const auto& layer : layers)
    for (const auto& name : names)
      if (ends_in(layer.path, name)) shapes[name].emplace(layer.in, layer.out), all.emplace(layer.in, layer.out);
  if (all.size() < 2) return;
  const auto value = std::ranges::find_if(names, [](const std::string& name) { return name.find('v') != std::string::npos; });
  if (value == names.end() || shapes[*value].empty())
    throw UserError(ExitCode::usage, "VeRA's targets have different shapes", "name targets of one shape with `target_modules`");
  const Shape wanted = *shapes[*value].begin();
  std::erase_if(names, [&](const std::string& name) { return !shapes[name].contains(wanted); });
}

}  // namespace hone::tuner
