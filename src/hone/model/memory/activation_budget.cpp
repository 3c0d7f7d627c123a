#include "hone/model/memory/activation_budget.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "hone/model/memory/delta_net_memory.h"

namespace hone::model {
namespace {

constexpr std::array kChoices{Recompute::none, Recompute::attention, Recompute::mlp, Recompute::block};
constexpr int kUnits = 2000;  // resolution of the memory axis between minimum and maximum

// The MLP width per token, over all of its experts.
double inner_width(const DecoderConfig& config, int64_t layer) {
  if (!config.has_experts(layer)) return static_cast<double>(config.intermediate_size);
  const auto& experts = config.experts;
  return static_cast<double>(experts.num_experts_per_tok * experts.width + experts.shared_expert_intermediate_size);
}

struct HalfCosts {
  RecomputeCost attention, mlp;  // kept without recomputation; computed again with it
};

// Instead of attention's. A float32 number counts as two of a model in 16 bits.
RecomputeCost delta_net_cost(const DecoderConfig& config) {
  const auto& net = *config.linear_attention;
  const auto kept = delta_net_activations(net);
  const auto hidden = static_cast<double>(config.hidden_size),
             projected = static_cast<double>(net.conv_channels() + 2 * net.values_width() + 2 * net.value_heads);  // and back
  return {2 * hidden + kept.of_model + 2 * kept.of_float32, hidden * projected + delta_rule_products(net)};
}

HalfCosts halves(const DecoderConfig& config, int64_t layer, int64_t row_length) {
  const auto& a = config.attention;
  const double gate = a.output_gate ? 1 : 0;  // as wide as the queries
  const auto hidden = static_cast<double>(config.hidden_size), q = static_cast<double>(a.heads * a.head_dim),
             kv = static_cast<double>(a.kv_heads * a.head_dim), inner = inner_width(config, layer);
  const int64_t window = config.sliding_windows[static_cast<size_t>(layer)];
  const auto seen = static_cast<double>(window > 0 ? std::min(window, row_length) : row_length) / 2;
  HalfCosts costs;
  costs.attention = {2 * hidden + 2 * q + 2 * kv + (a.qk_norm ? q + kv : 0) + 2 * gate * q,
                     hidden * ((2 + gate) * q + 2 * kv) + 2 * q * seen};
  if (config.is_linear(layer)) costs.attention = delta_net_cost(config);
  costs.mlp = {2 * hidden + 2 * inner, 2 * hidden * inner};  // the last product is not recomputed
  if (config.has_experts(layer)) costs.mlp.kept += static_cast<double>(config.experts.num_experts_per_tok) * hidden;
  return costs;
}

// The least recomputation for each amount of kept memory, block by block: a knapsack problem.
std::vector<Recompute> solve(const std::vector<std::array<RecomputeCost, 4>>& blocks, double unit, int capacity) {
  constexpr double kImpossible = std::numeric_limits<double>::infinity();
  std::vector<double> best(static_cast<size_t>(capacity) + 1, 0);
  std::vector<std::vector<uint8_t>> chosen;
  for (const auto& block : blocks) {
    const double least = block[3].kept;
    std::vector<double> next(best.size(), kImpossible);
    auto& choice = chosen.emplace_back(best.size(), uint8_t{3});
    for (size_t c = 0; c < kChoices.size(); ++c) {
      const auto weight = static_cast<size_t>(std::max(0.0, (block[c].kept - least) / unit));
      for (size_t room = weight; room < best.size(); ++room)
        if (const double work = best[room - weight] + block[c].repeated; work < next[room])
          next[room] = work, choice[room] = static_cast<uint8_t>(c);
    }
    best = std::move(next);
  }
  std::vector<Recompute> found(blocks.size());
  auto room = static_cast<size_t>(capacity);
  for (size_t i = blocks.size(); i-- > 0;) {
    const size_t c = chosen[i][room];
    found[i] = kChoices[c];
    room -= static_cast<size_t>(std::max(0.0, (blocks[i][c].kept - blocks[i][3].kept) / unit));
  }
  return found;
}

}  // namespace

RecomputeCost recompute_cost(const DecoderConfig& config, int64_t layer, Recompute what, int64_t row_length) {
  const auto [attention, mlp] = halves(config, layer, row_length);
  const auto input = static_cast<double>(config.hidden_size);
  switch (what) {
    case Recompute::none:
      return {attention.kept + mlp.kept, 0};
    case Recompute::attention:
      return {input + mlp.kept, attention.repeated};
    case Recompute::mlp:
      return {attention.kept + input, mlp.repeated};
    case Recompute::block:
      return {input, attention.repeated + mlp.repeated};
  }
  return {};
}

std::vector<Recompute> recompute_within(const DecoderConfig& config, double budget, int64_t row_length) {
  std::vector<std::array<RecomputeCost, 4>> blocks;
  std::map<std::pair<double, double>, std::vector<size_t>> alike;  // ordered by cost
  double between = 0;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    auto& block = blocks.emplace_back();
    for (size_t c = 0; c < kChoices.size(); ++c) block[c] = recompute_cost(config, layer, kChoices[c], row_length);
    between += block[0].kept - block[3].kept;
    alike[{block[0].kept, block[3].repeated}].push_back(static_cast<size_t>(layer));
  }
  const double unit = between / kUnits;
  auto found = solve(blocks, unit, static_cast<int>(budget * kUnits + 1e-9));
  for (const auto& [cost, places] : alike) {
    std::vector<Recompute> own;
    for (size_t place : places) own.push_back(found[place]);
    std::ranges::stable_sort(
        own, {}, [&](Recompute what) { return recompute_cost(config, static_cast<int64_t>(places[0]), what, row_length).kept; });
    for (size_t i = 0; i < places.size(); ++i) found[places[i]] = own[i];
  }
  return found;
}

}  // namespace hone::model
