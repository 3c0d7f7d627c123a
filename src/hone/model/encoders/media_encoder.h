// The towers of a model: images and audio in, embeddings of their rows out. Outputs of frozen towers may come from a cache.
#pragma once
#include <memory>
#include <string>

#include "hone/model/encoders/audio_tower.h"
#include "hone/model/encoders/tower_cache.h"
#include "hone/model/encoders/vision_tower.h"
#include "hone/model/forward_input.h"

namespace hone::model {

struct Decoder;

class MediaEncoder {
 public:
  explicit MediaEncoder(Decoder& decoder) : decoder_(decoder) {}

  EncoderEmbeddings encode(const ImageInput& images, const AudioInput& audio, bool training) const;
  // Throws UserError(usage) if no tower is frozen.
  void set_cache(std::shared_ptr<TowerCache> cache);

 private:
  VisionFeatures cached(const ImageInput& images, bool training) const;
  Tensor cached(const AudioInput& audio, bool training) const;

  Decoder& decoder_;  // which has the towers
  std::shared_ptr<TowerCache> cache_;
  std::string vision_digest_, audio_digest_;  // of towers whose outputs are cached; empty: they are not
};

}  // namespace hone::model
