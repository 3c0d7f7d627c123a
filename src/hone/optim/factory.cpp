#include "hone/optim/factory.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/optim/kwargs.h"
#include "hone/optim/optimizers/adafactor.h"
#include "hone/optim/optimizers/adam8bit.h"
#include "hone/optim/optimizers/adam_mini.h"
#include "hone/optim/optimizers/apollo.h"
#include "hone/optim/optimizers/block_adam.h"
#include "hone/optim/optimizers/galore.h"
#include "hone/optim/optimizers/lion.h"
#include "hone/optim/optimizers/masked_adam.h"
#include "hone/optim/optimizers/muon.h"
#include "hone/optim/optimizers/optimizer_in_backward.h"
#include "hone/optim/optimizers/quantized_galore.h"
#include "hone/optim/optimizers/sgd_rmsprop_adagrad.h"

namespace hone::optim {
namespace {

using Groups = std::vector<ParameterGroup>;

using Maker = std::unique_ptr<Optimizer> (*)(const OptimizerConfig&, Kwargs&, Groups);

std::unique_ptr<Optimizer> adamw(const OptimizerConfig& c, Kwargs&, Groups g) {
  return std::make_unique<Adam>(std::move(g), c.adam);
}

std::unique_ptr<Optimizer> adam(const OptimizerConfig& c, Kwargs&, Groups g) {
  AdamConfig config = c.adam;
  config.decoupled_decay = false;
  return std::make_unique<Adam>(std::move(g), config);
}

std::unique_ptr<Optimizer> adamw_8bit(const OptimizerConfig& c, Kwargs&, Groups g) {
  return std::make_unique<Adam8bit>(std::move(g), c.adam);
}

std::unique_ptr<Optimizer> adafactor(const OptimizerConfig&, Kwargs& a, Groups g) {
  AdafactorConfig config;
  config.scale_parameter = a.truth("scale_parameter", config.scale_parameter);
  config.relative_step = a.truth("relative_step", config.relative_step);
  config.warmup_init = a.truth("warmup_init", config.warmup_init);
  config.clip_threshold = a.number("clip_threshold", config.clip_threshold);
  config.decay_rate = a.number("decay_rate", config.decay_rate);
  if (const double beta1 = a.number("beta1", -1); beta1 >= 0) config.beta1 = beta1;
  return std::make_unique<Adafactor>(std::move(g), config);
}

std::unique_ptr<Optimizer> sgd(const OptimizerConfig&, Kwargs& a, Groups g) {
  SgdConfig config{a.number("momentum", 0), a.number("dampening", 0), a.truth("nesterov", false)};
  return std::make_unique<Sgd>(std::move(g), config);
}

std::unique_ptr<Optimizer> rmsprop(const OptimizerConfig&, Kwargs& a, Groups g) {
  RmspropConfig config{a.number("alpha", 0.99), a.number("eps", 1e-8), a.number("momentum", 0), a.truth("centered", false)};
  return std::make_unique<Rmsprop>(std::move(g), config);
}

std::unique_ptr<Optimizer> adagrad(const OptimizerConfig&, Kwargs& a, Groups g) {
  AdagradConfig config{a.number("lr_decay", 0), a.number("eps", 1e-10)};
  return std::make_unique<Adagrad>(std::move(g), config);
}

template <bool eight_bit>
std::unique_ptr<Optimizer> lion(const OptimizerConfig& c, Kwargs&, Groups g) {
  return std::make_unique<Lion>(std::move(g), LionConfig{c.adam.beta1, c.adam.beta2, eight_bit});
}

std::unique_ptr<Optimizer> muon(const OptimizerConfig& c, Kwargs& a, Groups g) {
  MuonConfig config;
  config.momentum = a.number("momentum", config.momentum);
  config.nesterov = a.truth("nesterov", config.nesterov);
  config.newton_schulz_steps = static_cast<int>(a.positive("ns_steps", config.newton_schulz_steps));
  config.scale = a.number("scale", config.scale);
  config.matrices = c.matrices;
  config.rest = c.adam;
  return std::make_unique<Muon>(std::move(g), config);
}

GaloreConfig galore_config(const OptimizerConfig& c, Kwargs& a) {
  GaloreConfig config;
  config.adam = c.adam;
  config.rank = a.positive("rank", config.rank);
  config.update_interval = a.positive("update_proj_gap", config.update_interval);
  config.scale = a.number("scale", config.scale);
  config.projection = a.text("proj_type", config.projection);
  config.targets = c.target_modules;
  config.alone_at = c.parameter_index;
  return config;
}

std::unique_ptr<Optimizer> galore(const OptimizerConfig& c, Kwargs& a, Groups g) {
  return std::make_unique<Galore>(std::move(g), galore_config(c, a));
}

std::unique_ptr<Optimizer> quantized_galore(const OptimizerConfig& c, Kwargs& a, Groups g) {
  QuantizedGaloreConfig config;
  config.galore = galore_config(c, a);
  config.quantize_projector = a.truth("proj_quant", config.quantize_projector);
  config.bits = a.positive("proj_bits", config.bits);
  config.group = a.positive("proj_group_size", config.group);
  config.cos_threshold = a.number("cos_threshold", config.cos_threshold);
  config.gamma_proj = a.positive("gamma_proj", config.gamma_proj);
  config.queue_size = a.positive("queue_size", config.queue_size);
  return std::make_unique<QuantizedGalore>(std::move(g), config);
}

std::unique_ptr<Optimizer> apollo(const OptimizerConfig& c, Kwargs& a, Groups g) {
  ApolloConfig config;
  config.adam = c.adam;
  // Without arguments, transformers' meaning of the name: APOLLO-Mini.
  config.rank = a.positive("rank", 1);
  config.update_interval = a.positive("update_proj_gap", config.update_interval);
  config.scale = a.number("scale", 128);
  config.by_svd = a.choice("proj", {"random", "svd"}) == "svd";
  config.per_channel = a.choice("scale_type", {"tensor", "channel"}) == "channel";
  config.scale_front = a.truth("scale_front", config.scale_front);
  config.projection = a.text("proj_type", config.projection);
  config.targets = c.target_modules;
  config.alone_at = c.parameter_index;
  return std::make_unique<Apollo>(std::move(g), config);
}

std::unique_ptr<Optimizer> badam(const OptimizerConfig& c, Kwargs& a, Groups g) {
  const bool by_ratio = a.choice("mode", {"layer", "ratio"}) == "ratio";
  const int64_t interval = a.whole("switch_interval", 50), start = a.whole("start_block", -1);
  const std::vector<std::string> orders = {"ascending", "descending", "random", "fixed"};
  const std::string order = a.choice("switch_mode", orders);
  MaskedAdamConfig masked{c.adam, a.number("update_ratio", 0.05), interval,
                          a.choice("mask_mode", {"adjacent", "scatter"}) == "scatter"};
  const bool verbose = a.whole("verbose", 0) > 0;
  if (by_ratio) return std::make_unique<MaskedAdam>(std::move(g), masked);
  const auto place = std::ranges::find(orders, order) - orders.begin();
  return std::make_unique<BlockAdam>(std::move(g),
                                     BlockAdamConfig{c.adam, static_cast<BlockOrder>(place), interval, start, verbose});
}

std::unique_ptr<Optimizer> adam_mini(const OptimizerConfig& c, Kwargs& a, Groups g) {
  return std::make_unique<AdamMini>(std::move(g), AdamMiniConfig{c.adam, a.whole("head_dim", 0)});
}

constexpr double kMostBeta2 = 0.99;  // changes of a second moment that bfloat16, with 8 bits, can hold

struct NamedMaker {
  std::string name;
  Maker make;
  bool plain_adam = false;  // one tensor for each moment
};

const std::vector<NamedMaker>& maker_table() {
  static const std::vector<NamedMaker> makers = {
      {"adamw_torch", adamw, true},
      {"adamw_torch_fused", adamw, true},
      {"adamw_torch_npu_fused", adamw, true},
      {"adamw_hf", adamw, true},
      {"adamw", adamw, true},
      {"adam", adam, true},
      {"paged_adamw_32bit", adamw, true},
      {"paged_adamw", adamw, true},
      {"adamw_8bit", adamw_8bit},
      {"adamw_bnb_8bit", adamw_8bit},
      {"adamw_torch_8bit", adamw_8bit},
      {"paged_adamw_8bit", adamw_8bit},
      {"adafactor", adafactor},
      {"sgd", sgd},
      {"rmsprop", rmsprop},
      {"adagrad", adagrad},
      {"lion_32bit", lion<false>},
      {"lion", lion<false>},
      {"paged_lion_32bit", lion<false>},
      {"lion_8bit", lion<true>},
      {"paged_lion_8bit", lion<true>},
      {"muon", muon},
      {"galore_adamw", galore},
      {"galore", galore},
      {"q_galore_adamw", quantized_galore},
      {"apollo_adamw", apollo},
      {"apollo", apollo},
      {"badam", badam},
      {"adam_mini", adam_mini},
  };
  return makers;
}

}  // namespace

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& entry : maker_table()) all.push_back(entry.name);
    return all;
  }();
  return names;
}

bool share_state(std::string_view optimizer, std::string_view other) {
  const auto& table = maker_table();
  const auto one = std::ranges::find(table, optimizer, &NamedMaker::name),
             two = std::ranges::find(table, other, &NamedMaker::name);
  if (one == table.end() || two == table.end()) return optimizer == other;
  return one->make == two->make || (one->plain_adam && two->plain_adam);
}

void validate(const OptimizerConfig& config) {
  auto trial = config;
  trial.per_parameter = false;
  trial.target_modules = {"all"};
  if (trial.arguments.is_object()) trial.arguments.erase("start_block");  // bounded by the blocks of the model
  make_optimizer(trial, {{.names = {"model.layers.0.mlp.up_proj.weight"}, .parameters = {at::zeros({256, 256})}}});
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, std::vector<ParameterGroup> groups) {
  auto entry = std::ranges::find(maker_table(), config.name, &NamedMaker::name);
  if (entry == maker_table().end())
    throw UserError(ExitCode::usage, fmt::format("`optim` is \"{}\"", config.name),
                    fmt::format("one of {}", fmt::join(optimizer_names(), ", ")));
  if (config.adam.rounds_moments() && !entry->plain_adam)
    throw UserError(ExitCode::usage,
                    fmt::format("`exp_avg_dtype` and `exp_avg_sq_dtype` apply to AdamW, and `optim` is {}", config.name),
                    "use adamw_torch, or leave them out");
  if (config.adam.exp_avg_sq_dtype == at::kBFloat16 && config.adam.beta2 > kMostBeta2)
    log::warn_once(
        fmt::format("`exp_avg_sq_dtype` bf16 with `adam_beta2` {}: bfloat16 cannot hold such small changes of the second moment, "
                    "which stays too small, and steps become too large; use `adam_beta2` 0.95, or fp32",
                    config.adam.beta2));
  if (config.per_parameter) return std::make_unique<OptimizerInBackward>(config, std::move(groups));
  if (config.name.starts_with("paged_"))
    log::warn_once(fmt::format("`optim` {}: the state stays in device memory; there is nothing to page", config.name));
  Kwargs arguments("optim_args", config.name, config.arguments);
  auto optimizer = entry->make(config, arguments, std::move(groups));
  arguments.finish();
  return optimizer;
}

}  // namespace hone::optim
