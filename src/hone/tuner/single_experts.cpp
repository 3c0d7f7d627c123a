#include "hone/tuner/single_experts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "hone/io/expert_names.h"
#include "hone/tuner/targets.h"

namespace hone::tuner {
namespace {

constexpr const char* kBothRanks = R"(.*\.gate_up_proj)";  // as PEFT writes it

struct Pair {
  Tensor a, b;
};
using Pairs = std::map<int64_t, std::map<std::string, Pair>>;  // by expert and kind

bool is_whole(const Pair& pair) {
  return pair.a.defined() && pair.b.defined() && pair.a.dim() == 2 && pair.b.dim() == 2 && pair.a.size(0) == pair.b.size(1);
}

// For all experts: a [E * r, in], b [out, r * E]; for several kinds with concatenated outputs, the ranks of all.
Pair stacked(const Pairs& pairs, const std::vector<std::string>& kinds, const std::string& block, const std::string& origin) {
  TensorList a, b;
  for (int64_t expert = 0; expert < static_cast<int64_t>(pairs.size()); ++expert) {
    TensorList own_a, own_b;
    for (const auto& kind : kinds) {
      auto found = pairs.find(expert);
      auto pair = found == pairs.end() ? Pair() : found->second.contains(kind) ? found->second.at(kind) : Pair();
      if (!is_whole(pair))
        throw UserError(ExitCode::bad_checkpoint,
                        fmt::format("{}: {}.experts.{}.{} has no complete pair of matrices", origin, block, expert, kind));
      own_a.push_back(pair.a), own_b.push_back(pair.b);
    }
    a.push_back(at::cat(own_a)), b.push_back(at::block_diag(own_b));
    if (a.back().sizes() != a.front().sizes() || b.back().sizes() != b.front().sizes())
      throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: experts of {} have pairs of different shapes", origin, block));
  }
  return {at::cat(a), at::stack(b).permute({1, 2, 0}).reshape({b.front().size(0), -1})};
}

void add_target(io::AdapterConfig& config, const std::string& parameter) {
  if (!std::ranges::count(config.target_parameters, parameter)) config.target_parameters.push_back(parameter);
}

void add_both_ranks(io::AdapterConfig& config) {
  const double growth = config.rslora ? std::sqrt(2.0) : 2.0;  // keeps the scale while the rank doubles; PEFT ignores rsLoRA here
  add_target(config, "gate_up_proj");
  config.rank_pattern.emplace_back(kBothRanks, 2 * config.rank);
  config.alpha_pattern.emplace_back(kBothRanks, growth * config.alpha);
}

// Modules that still have a pair in the adapter; other names would not be found in the model.
void keep_targets_of(io::AdapterConfig& config, const std::set<std::string>& modules) {
  std::erase_if(config.targets.names, [&](const std::string& name) {
    return std::ranges::none_of(modules, [&](const auto& module) { return ends_in(module, name); });
  });
  if (!config.targets.regex.empty()) config.targets = {{modules.begin(), modules.end()}, ""};
}

// The A or B factor that a single expert's tensor is: "….experts.3.gate_proj.lora_A.weight".
Tensor& half_named(Pair& pair, std::string_view name, const std::string& origin) {
  if (name.ends_with(".lora_A.weight")) return pair.a;
  if (name.ends_with(".lora_B.weight")) return pair.b;
  throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: \"{}\" belongs to a single expert", origin, name),
                  "experts take plain LoRA pairs, lora_A and lora_B");
}

bool any_expert_has(const Pairs& pairs, const std::string& kind) {
  return std::ranges::any_of(pairs, [&](const auto& of_expert) { return of_expert.second.contains(kind); });
}

void check_kinds(const Pairs& pairs, const io::ExpertNames& names, const std::string& block, const std::string& origin) {
  for (const auto& [expert, kinds] : pairs)
    for (const auto& [kind, pair] : kinds)
      if (kind != names.gate && kind != names.up && kind != names.down)
        throw UserError(ExitCode::bad_checkpoint,
                        fmt::format("{}: {}.experts.{} has a pair for \"{}\"", origin, block, expert, kind),
                        fmt::format("experts have {}, {} and {}", names.gate, names.up, names.down));
}

}  // namespace

void stack_single_experts(io::Adapter& adapter, const std::string& origin) {
  std::map<std::string, Pairs> blocks;
  io::NamedTensorList others;
  std::set<std::string> modules;
  for (const auto& [name, tensor] : adapter.tensors) {
    const size_t end = name.find(".lora_");
    auto single = end == name.npos ? std::nullopt : io::parse_single_expert(name.substr(0, end));
    if (single) {
      half_named(blocks[single->block][single->expert][single->kind], name, origin) = tensor;
      continue;
    }
    if (end != name.npos) modules.insert(name.substr(0, end));
    others.emplace_back(name, tensor);
  }
  if (blocks.empty()) return;
  auto& config = adapter.config;
  for (const auto& [block, pairs] : blocks) {
    const bool mixtral = block.ends_with(".block_sparse_moe");
    const std::string layer = mixtral ? block.substr(0, block.rfind('.')) + ".mlp" : block;
    const io::ExpertNames names = mixtral ? io::kMixtralNames : io::ExpertNames();
    check_kinds(pairs, names, block, origin);
    const bool both = any_expert_has(pairs, names.gate) || any_expert_has(pairs, names.up),
               down = any_expert_has(pairs, names.down);
    const auto put = [&](const std::string& owner, const Pair& pair) {
      others.emplace_back(owner + ".lora_A.weight", pair.a);
      others.emplace_back(owner + ".lora_B.weight", pair.b);
    };
    if (both) put(layer + (down ? ".experts.base_layer" : ".experts"), stacked(pairs, {names.gate, names.up}, block, origin));
    if (down) put(layer + ".experts", stacked(pairs, {names.down}, block, origin));
    if (both && !std::ranges::count(config.target_parameters, "gate_up_proj")) add_both_ranks(config);
    if (down) add_target(config, "experts.down_proj");
    for (auto& [name, tensor] : others)
      if (name.starts_with(block + ".gate.lora_")) {
        name = layer + name.substr(block.size());
        modules.erase(block + ".gate");
        add_target(config, "gate.weight");
      }
  }
  keep_targets_of(config, modules);
  adapter.tensors = std::move(others);
}

void target_stacked_experts(io::AdapterConfig& config, const std::vector<std::string>& modules, const model::MoeConfig& experts) {
  if (experts.count == 0) return;
  const auto& stored = experts.stored_as;
  const auto takes = [&](const std::string& kind) {
    if (std::ranges::any_of(modules, [&](const std::string& module) { return ends_in(module, kind); })) return false;
    return std::erase_if(config.targets.names, [&](const std::string& name) { return ends_in(name, kind); }) > 0;
  };
  const bool gate = takes(stored.gate), up = takes(stored.up);
  if (gate != up)
    throw UserError(
        ExitCode::usage,
        fmt::format("target_modules name {} without {}", gate ? stored.gate : stored.up, gate ? stored.up : stored.gate),
        "experts keep both in one parameter, gate_up_proj: name both or none");
  if (gate) add_both_ranks(config);
  if (takes(stored.down)) add_target(config, "experts.down_proj");
  if (takes("gate")) add_target(config, "gate.weight");
}

}  // namespace hone::tuner
