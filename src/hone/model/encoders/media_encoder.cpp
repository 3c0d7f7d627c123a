#include "hone/model/encoders/media_encoder.h"

#include <algorithm>

#include "hone/base/error.h"
#include "hone/model/decoder.h"

namespace hone::model {
namespace {

bool has_trained_parameters(const Module& tower) {
  auto trains = [](const auto& parameter) { return parameter.value->requires_grad(); };
  return std::ranges::any_of(tower.parameters(), trains) || std::ranges::any_of(tower.adapter_parameters(), trains);
}

// All weights are frozen, plain tensors, so that a digest identifies them.
bool is_frozen(const Module& tower) {
  auto is_plain = [](const Linear* layer) { return layer->tuners.empty() && !layer->quantized_base && !layer->quantized; };
  return std::ranges::all_of(tower.linears(), is_plain) && tower.adapter_parameters().empty() && !has_trained_parameters(tower);
}

// "" if it is not frozen.
template <typename Tower>
std::string digest_of(Tower& tower) {
  const auto module = tower.module();
  return is_frozen(module) ? tower_digest(module, fmt::format("{} heads", tower.config.heads)) : "";
}

// A video in the batch makes its images repeat their frames.
Tensor one_frame_of_stills(const Tensor& rows_pr, const PatchGrid& grid, const VisionConfig& config) {
  if (grid.is_video || rows_pr.size(1) < config.row_size() || config.temporal_patch_size == 1) return rows_pr;
  const auto frames = rows_pr.view({rows_pr.size(0), config.in_channels, config.temporal_patch_size, -1});
  return frames.select(2, 0).reshape({rows_pr.size(0), -1});
}

// One image at a time: its features must not depend on the other images, not even in the last bit.
VisionFeatures cached_features(VisionTower& tower, const CachedTowers& cached, const ImageInput& images, bool training) {
  std::vector<TensorList> parts;
  int64_t first = 0;
  for (const auto& grid : images.grids) {
    const int64_t patches = grid.frames * grid.height * grid.width;
    const auto rows_pr = one_frame_of_stills(images.patches_pr.narrow(0, first, patches), grid, tower.config);
    first += patches;
    const auto key = medium_digest(cached.vision_digest, rows_pr, grid.str());
    auto found = cached.cache->get(key, rows_pr.device(), [&] {
      auto made = tower.forward(rows_pr, {grid}, {training});
      TensorList all{made.embeddings_nh};
      all.insert(all.end(), made.deepstack.begin(), made.deepstack.end());
      return all;
    });
    parts.resize(found.size());
    for (size_t i = 0; i < found.size(); ++i) parts[i].push_back(found[i]);
  }
  VisionFeatures features{at::cat(parts.front()), {}};
  for (size_t i = 1; i < parts.size(); ++i) features.deepstack.push_back(at::cat(parts[i]));
  return features;
}

Tensor cached_features(AudioTower& tower, const CachedTowers& cached, const AudioInput& audio, bool training) {
  TensorList parts;
  int64_t first = 0;
  for (const int64_t length : audio.lengths) {
    const auto frames_fm = audio.frames_fm.narrow(0, first, length);
    first += length;
    const auto key = medium_digest(cached.audio_digest, frames_fm, std::to_string(length));
    auto compute = [&] { return TensorList{tower.forward(frames_fm, {length}, {training})}; };
    parts.push_back(cached.cache->get(key, frames_fm.device(), compute).front());
  }
  return at::cat(parts);
}

}  // namespace

bool trains_towers(Decoder& decoder) {
  return (decoder.vision && has_trained_parameters(decoder.vision->module())) ||
         (decoder.audio && has_trained_parameters(decoder.audio->module()));
}

// Audio adds no deepstack features.
EncoderEmbeddings encode_media(Decoder& decoder, const ImageInput& images, const AudioInput& audio, bool training) {
  const auto& architecture = decoder.config.architecture;
  const auto* cached = decoder.cached_towers.get();
  EncoderEmbeddings of_images, of_audio;
  if (!images.empty()) {
    HONE_CHECK(decoder.vision, "images for {}, which has no vision tower", architecture);
    auto features = cached && !cached->vision_digest.empty()
                        ? cached_features(*decoder.vision, *cached, images, training)
                        : decoder.vision->forward(images.patches_pr, images.grids, {training});
    of_images = {images.rows_n, std::move(features.embeddings_nh), std::move(features.deepstack)};
  }
  if (!audio.empty()) {
    HONE_CHECK(decoder.audio, "audio for {}, which has no audio tower", architecture);
    auto features_nh = cached && !cached->audio_digest.empty()
                           ? cached_features(*decoder.audio, *cached, audio, training)
                           : decoder.audio->forward(audio.frames_fm, audio.lengths, {training});
    of_audio = {audio.rows_n, std::move(features_nh), {}};
  }
  if (of_images.empty() || of_audio.empty()) return of_images.empty() ? of_audio : of_images;
  for (auto& addition : of_images.deepstack)
    addition = at::cat({addition, at::zeros({of_audio.rows_n.size(0), addition.size(1)}, addition.options())});
  return {at::cat({of_images.rows_n, of_audio.rows_n}), at::cat({of_images.embeddings_nh, of_audio.embeddings_nh}),
          std::move(of_images.deepstack)};
}

void apply_tower_cache(Decoder& decoder, std::shared_ptr<TowerCache> cache) {
  CachedTowers towers{std::move(cache), "", ""};
  if (decoder.vision) {
    const auto& config = decoder.vision->config;
    towers.vision_digest = digest_of(*decoder.vision);
    if (!towers.vision_digest.empty())
      towers.vision_digest +=
          fmt::format(" window {} full {} theta {} deepstack {}", config.window_size,
                      fmt::join(config.full_attention_blocks, ","), config.rope_theta, fmt::join(config.deepstack_blocks, ","));
  }
  if (decoder.audio) {
    const auto& config = decoder.audio->config;
    towers.audio_digest = digest_of(*decoder.audio);
    if (!towers.audio_digest.empty()) towers.audio_digest += fmt::format(" chunk {} x {}", config.chunk, config.chunks_in_window);
  }
  if (towers.vision_digest.empty() && towers.audio_digest.empty())
    throw UserError(
        ExitCode::usage,
        fmt::format("`tower_cache` keeps outputs of towers that do not train, and {} has none", decoder.config.architecture),
        "leave it out, or freeze the tower and its aligner");
  decoder.cached_towers = std::make_shared<const CachedTowers>(std::move(towers));
}

EncoderEmbeddings features_on_rank(const Decoder& decoder, EncoderEmbeddings features, const ForwardInput& input) {
  const auto rows = decoder.region ? decoder.region->own_rows(input.size()) : RowRange{0, input.size()};
  const bool has_all = !decoder.distributed_attention && rows.begin == 0 && rows.end == input.size();
  return has_all ? features : features.within(rows.begin, rows.end);
}

EncoderEmbeddings media_rows_on_rank(const Decoder& decoder, const ForwardInput& input) {
  return features_on_rank(decoder, {input.media_rows(), {}, {}}, input);
}

ForwardInput with_features(const Decoder& decoder, const ForwardInput& input, EncoderEmbeddings features) {
  auto encoded = input;
  encoded.encoder = std::move(features);
  if (const auto& vision = decoder.config.vision; vision && vision->bidirectional_images && !input.images.empty())
    encoded.attention_blocks = row_blocks(input.images.rows_n, input.segments);
  encoded.images = {}, encoded.audio = {};
  return encoded;
}

}  // namespace hone::model
