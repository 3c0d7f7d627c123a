#include "hone/train/plan/tower.h"

namespace hone::train {

TowerMemory tower_memory(const Workload& w) {
  if (!w.model.vision || w.image_tokens == 0) return {};
  const auto& tower = *w.model.vision;
  const double patches = static_cast<double>(w.image_tokens * w.images * tower.merge_unit()),
               hidden = static_cast<double>(tower.hidden_size), inner = static_cast<double>(tower.intermediate_size);
  const double gates = tower.activation == model::VisionActivation::swiglu ? 2 : 1;
  // Norms' inputs and outputs, queries, keys, values, the attention output; outputs of the MLP's products.
  const double block = (8 * hidden + (1 + gates) * inner) * w.weight_bytes * patches;
  // The probabilities of visual words, in float32 and in the model's dtype.
  const double words =
      tower.has_marks() ? static_cast<double>(w.image_tokens * w.images * tower.merger_size) * (4 + 2 * w.weight_bytes) : 0;
  TowerMemory memory;
  memory.working = block + words + static_cast<double>(tower.row_size()) * 4 * patches;
  if (!w.tower_trains) return memory;
  const double each = w.tower_recompute ? hidden * w.weight_bytes * patches : block;
  memory.kept = static_cast<double>(tower.depth) * each + words;
  return memory;
}

int64_t image_tokens(const model::VisionConfig& vision, int64_t asked) {
  if (!vision.has_fixed_grid) return asked;
  const int64_t side = vision.position_grid / vision.merge_size;
  return vision.sees_ahead ? side * side : std::max<int64_t>(1, asked / (side * side)) * side * side;
}

}  // namespace hone::train
