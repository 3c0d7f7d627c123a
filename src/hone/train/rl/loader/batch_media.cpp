#include "hone/train/rl/loader/batch_media.h"

#include "hone/data/batches/collator.h"

namespace hone::train::rl {

BatchMedia batch_media_from(Json own) { return own.is_null() ? nullptr : std::make_shared<const Json>(std::move(own)); }

std::vector<BatchMedia> media_of_batches(const RolloutBatch& draw, size_t batches) {
  std::vector<BatchMedia> media;
  const auto size = draw.own.size() / batches;
  for (size_t b = 0; b < batches; ++b)
    media.push_back(batch_media_from(own_media_json(training_rounds(std::span(draw.own).subspan(b * size, size)))));
  return media;
}

void restore_media(data::Batch& batch, const BatchMedia& own, const Prompts& prompts) {
  const auto* tokens = batch.tokens_t.const_data_ptr<int64_t>();
  std::vector<data::SamplePack> packs;
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    data::Sample sample;
    sample.ids.assign(tokens + batch.segments.offsets[i], tokens + batch.segments.offsets[i + 1]);
    sample.labels.assign(sample.ids.size(), data::kIgnore);
    if (own && !own->at(i).is_null()) {
      auto media = data::place_media(prompts.encoder(), sample.ids, data::placement_from(own->at(i)))
                       .or_throw(ExitCode::bad_data, "the media of a rollout");
      sample.pictures = std::move(media.pictures);
      sample.sounds = std::move(media.sounds);
    } else {
      auto prompt = prompts.load(batch.rows[i]);
      sample.pictures = std::move(prompt.pictures);
      sample.sounds = std::move(prompt.sounds);
    }
    packs.push_back({std::move(sample)});
  }
  auto seen = data::collate(packs, data::PackMask::separate);
  batch.images = std::move(seen.images);
  batch.audio = std::move(seen.audio);
  batch.positions_t = std::move(seen.positions_t);
}

}  // namespace hone::train::rl
