#include "hone/tuner/single_experts.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "hone/tuner/targets.h"

namespace hone::tuner {
namespace {

constexpr const char* kBothRanks = R"(.*\.gate_up_proj)";  // as PEFT writes it

struct SinglePair {
  std::string block, kind;  // "model.layers.0.mlp", "gate_proj"
  int64_t expert;
};

// "model.layers.0.mlp.experts.3.gate_proj", the module of a pair.
std::optional<SinglePair> parse_single(const std::string& module) {
  constexpr std::string_view kMiddle = ".experts.";
  const size_t at = module.rfind(kMiddle);
  if (at == module.npos) return std::nullopt;
  const char *begin = module.data() + at + kMiddle.size(), *end = module.data() + module.size();
  int64_t expert = -1;
  const auto [stop, status] = std::from_chars(begin, end, expert);
  if (status != std::errc() || expert < 0 || stop == end || *stop != '.') return std::nullopt;
  return SinglePair{module.substr(0, at), std::string(stop + 1, end), expert};
}

struct Pair {
  Tensor a, b;
};
using Pairs = std::map<int64_t, std::map<std::string, Pair>>;  // by expert and kind

bool is_whole(const Pair& pair) { return pair.a.defined() && pair.b.defined() && pair.a.dim() == 2 && pair.b.dim() == 2 && pair.a.size(0) == pair.b.size(1); }

// Of all experts: a [E * r, in], b [out, r * E]; of several kinds, whose outputs lie behind each other, with the ranks of all.
Pair stacked(const Pairs& pairs, const std::vector<std::string>& kinds, const std::string& block, const std::string& origin) {
  TensorList a, b;
  for (int64_t expert = 0; expert < static_cast<int64_t>(pairs.size()); ++expert) {
    TensorList own_a, own_b;
    for (const auto& kind : kinds) {
      auto found = pairs.find(expert);
      auto pair = found == pairs.end() ? Pair() : found->second.contains(kind) ? found->second.at(kind) : Pair();
      if (!is_whole(pair)) throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: {}.experts.{}.{} has no whole pair of matrices", origin, block, expert, kind));
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
  add_target(config, "gate_up_proj");
  config.rank_pattern.emplace_back(kBothRanks, 2 * config.rank);
  config.alpha_pattern.emplace_back(kBothRanks, 2 * config.alpha);
}

// Modules that the adapter still has a pair of; names of others would be missed in the model.
void keep_targets_of(io::AdapterConfig& config, const std::set<std::string>& modules) {
  std::erase_if(config.targets.names, [&](const std::string& name) { return std::ranges::none_of(modules, [&](const auto& module) { return ends_in(module, name); }); });
  if (!config.targets.regex.empty()) config.targets = {{modules.begin(), modules.end()}, ""};
}

}  // namespace

void stack_single_experts(io::Adapter& adapter, const std::string& origin) {
  std::map<std::string, Pairs> blocks;
  io::NamedTensorList others;
  std::set<std::string> modules;
  for (const auto& [name, tensor] : adapter.tensors) {
    const size_t end = name.find(".lora_");
    auto single = end == name.npos ? std::nullopt : parse_single(name.substr(0, end));
    if (single) {
      auto& pair = blocks[single->block][single->expert][single->kind];
      (name.find(".lora_A", end) != name.npos ? pair.a : pair.b) = tensor;
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
    const auto& first = pairs.begin()->second;
    const bool both = first.contains(names.gate) || first.contains(names.up), down = first.contains(names.down);
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

void target_stacked_experts(io::AdapterConfig& config, const std::vector<std::string>& modules, const model::ExpertsConfig& experts) {
  if (experts.count == 0) return;
  const auto& stored = experts.stored_as;
  const auto takes = [&](const std::string& kind) {
    if (std::ranges::any_of(modules, [&](const std::string& module) { return ends_in(module, kind); })) return false;
    return std::erase_if(config.targets.names, [&](const std::string& name) { return ends_in(name, kind); }) > 0;
  };
  const bool gate = takes(stored.gate), up = takes(stored.up);
  if (gate != up)
    throw UserError(ExitCode::usage, fmt::format("target_modules name {} without {}", gate ? stored.gate : stored.up, gate ? stored.up : stored.gate),
                    "experts keep both in one parameter, gate_up_proj: name both or none");
  if (gate) add_both_ranks(config);
  if (takes(stored.down)) add_target(config, "experts.down_proj");
  if (takes("gate")) add_target(config, "gate.weight");
}

}  // namespace hone::tuner
