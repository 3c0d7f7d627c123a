#include "hone/parallel/pipeline/stage_reading.h"

#include <fmt/format.h>

#include "hone/device/placeholder.h"
#include "hone/model/layers.h"

namespace hone::parallel {

model::DeviceMap parts_elsewhere(const model::DecoderConfig& config, const StageLayout& layout, int rank) {
  const bool first = rank == 0, last = rank == layout.ranks() - 1, tied = config.tie_word_embeddings;
  const auto& names = config.names;
  model::DeviceMap elsewhere;
  auto leave = [&](std::string name) { elsewhere.emplace(std::move(name), at::Device(at::kMeta)); };
  for (int64_t block = 0; block < config.layers; ++block)
    if (layout.rank_of(layout.stage_of(block)) != rank) leave(names.block(block));
  if (!first && !(tied && last)) leave(fmt::format("{}.{}", names.model, names.embedding));
  const bool scores = config.num_labels > 0;  // a score head is small and may be new; the norm stays with its head
  if (!last && !scores && !(tied && first)) leave(fmt::format("{}.{}", names.model, names.final_norm));
  if (!last && !scores && !tied) leave(names.head);
  if (!first && config.vision) {
    const auto& tower = config.vision->names;
    for (const auto& path : {tower.tower, tower.merger, tower.vocabulary})
      if (!path.empty()) leave(path);
  }
  if (!first && config.audio) leave(config.audio->tower);
  return elsewhere;
}

void make_placeholders(model::CausalLM& model) {
  for (const auto& parameter : model.parameters())
    if (auto& value = *parameter.value; value.is_meta())
      value = device::placeholder(value.sizes(), value.options().device(at::kCPU));
  if (model.config().tie_word_embeddings) model.head().weight = model.embedding().weight;
}

}  // namespace hone::parallel
