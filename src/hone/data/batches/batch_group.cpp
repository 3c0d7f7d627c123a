#include "hone/data/batches/batch_group.h"

#include "hone/data/batches/audio_batch.h"
#include "hone/data/batches/batch_sampler.h"
#include "hone/data/batches/image_batch.h"

namespace hone::data {

LazyBatch make_unless_media(std::vector<SamplePack> packs, const LoaderConfig& config) {
  if (has_pictures(packs) || has_sounds(packs)) return {.made = {}, .packs = std::move(packs)};
  return {.made = make_batch(packs, config), .packs = {}};
}

void BatchGroup::start(std::vector<LazyBatch> batches, size_t offset) {
  ahead_.clear();
  batches_ = std::move(batches);
  offset_ = offset;
}

std::future<Batch> BatchGroup::make(LazyBatch batch) {
  if (!batch.made) return pool_.submit([&config = config_, packs = std::move(batch.packs)] { return make_batch(packs, config); });
  std::promise<Batch> made;
  made.set_value(std::move(*batch.made));
  return made.get_future();
}

Batch BatchGroup::next() {
  const size_t most = static_cast<size_t>(config_.prefetch) * pool_.size() + 2;
  while (ahead_.size() < most && offset_ + ahead_.size() < batches_.size())
    ahead_.push_back(make(std::move(batches_[offset_ + ahead_.size()])));
  auto batch = ahead_.front().get();
  ahead_.pop_front();
  ++offset_;
  return batch;
}

}  // namespace hone::data
