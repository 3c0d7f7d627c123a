#include "hone/train/rl/rollout_batch.h"

#include <algorithm>
#include <span>

#include "hone/data/batches/collator.h"

namespace hone::train::rl {

std::vector<data::Batch> collate_completions(const RolloutBatch& draw, int64_t batch_size) {
  std::vector<data::Batch> batches;
  const auto size = static_cast<size_t>(batch_size);
  for (size_t begin = 0; begin < draw.own.size(); begin += size) {
    std::vector<data::SamplePack> packs;
    const auto episodes = std::span(draw.own).subspan(begin, std::min(size, draw.own.size() - begin));
    for (const auto* round : training_rounds(episodes)) packs.push_back({training_sample(*round)});
    batches.push_back(data::collate(packs, data::PackMask::separate));
  }
  return batches;
}

}  // namespace hone::train::rl
