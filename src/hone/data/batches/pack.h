// Assigns samples to packs. Works on lengths alone, before anything is encoded again.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace hone::data {

enum class Packing {
  none,
  best_fit,  // ms-swift binpack: longest first, each into the fullest pack that still holds it
  next_fit,  // ms-swift sequential: order kept
  knapsack,  // LLaMA-Factory neat_packing: repeatedly the longest that still fits
  joined,    // LLaMA-Factory packing: knapsack, but the samples of a pack attend to each other
  blocks,    // LLaMA-Factory pre-training: texts concatenated, split into equal blocks
};
Packing parse_packing(const std::string& name);  // throws UserError(usage)

// Indices into `lengths`, one list per pack; every index once, no pack longer than `capacity` (which bounds all lengths).
using Packs = std::vector<std::vector<size_t>>;
Packs pack_best_fit(const std::vector<int64_t>& lengths, int64_t capacity);
Packs pack_next_fit(const std::vector<int64_t>& lengths, int64_t capacity);
Packs pack_knapsack(const std::vector<int64_t>& lengths, int64_t capacity);
Packs pack(Packing packing, const std::vector<int64_t>& lengths, int64_t capacity);

}  // namespace hone::data
