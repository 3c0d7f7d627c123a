// The towers of a model: images and audio in, embeddings of their rows out. Outputs of frozen towers may come from a cache.
#pragma once
#include <memory>
#include <string>

#include "hone/model/encoders/tower_cache.h"
#include "hone/model/forward_input.h"

namespace hone::model {

struct Decoder;

struct CachedTowers {
  std::shared_ptr<TowerCache> cache;
  std::string vision_digest, audio_digest;  // of frozen towers; empty: the tower's outputs are not cached
};

// Caches the outputs of frozen towers from now on; all weights are present. Throws UserError(usage) if no tower is frozen.
void apply_tower_cache(Decoder& decoder, std::shared_ptr<TowerCache> cache);

bool trains_towers(Decoder& decoder);

EncoderEmbeddings encode_media(Decoder& decoder, const ImageInput& images, const AudioInput& audio, bool training);

// Ranks that split sequences, or tensor parallel ones that split the rows, have the features of their own rows.
EncoderEmbeddings features_on_rank(const Decoder& decoder, EncoderEmbeddings features, const ForwardInput& input);
// The rows of media on this rank, without features.
EncoderEmbeddings media_rows_on_rank(const Decoder& decoder, const ForwardInput& input);
// The input with features in place of its media.
ForwardInput with_features(const Decoder& decoder, const ForwardInput& input, EncoderEmbeddings features);

}  // namespace hone::model
