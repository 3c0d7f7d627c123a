#include "hone/model/encoders/media_encoder.h"

#include <algorithm>

#include "hone/base/error.h"
#include "hone/model/decoder.h"

namespace hone::model {
namespace {

// All weights are frozen, plain tensors, so that a digest identifies them.
bool is_frozen(const Module& tower) {
  auto is_plain = [](const Linear* layer) { return layer->tuners.empty() && !layer->quantized_base && !layer->quantized; };
  return std::ranges::all_of(tower.linears(), is_plain) && tower.adapter_parameters().empty() &&
         std::ranges::none_of(tower.parameters(), [](const auto& parameter) { return parameter.value->requires_grad(); });
}

// "" if it is not frozen.
template <typename Tower>
std::string digest_of(Tower& tower) {
  const auto module = tower.module();
  return is_frozen(module) ? tower_digest(module, fmt::format("{} heads", tower.config.heads)) : "";
}

}  // namespace

// Audio adds no deepstack features.
EncoderEmbeddings MediaEncoder::encode(const ImageInput& images, const AudioInput& audio, bool training) const {
  const auto& architecture = decoder_.config.architecture;
  EncoderEmbeddings seen, heard;
  if (!images.empty()) {
    HONE_CHECK(decoder_.vision, "images for {}, which has no vision tower", architecture);
    auto features =
        vision_digest_.empty() ? decoder_.vision->forward(images.patches_pr, images.grids, {training}) : cached(images, training);
    seen = {images.rows_n, std::move(features.embeddings_nh), std::move(features.deepstack)};
  }
  if (!audio.empty()) {
    HONE_CHECK(decoder_.audio, "audio for {}, which has no audio tower", architecture);
    auto features_nh =
        audio_digest_.empty() ? decoder_.audio->forward(audio.frames_fm, audio.lengths, {training}) : cached(audio, training);
    heard = {audio.rows_n, std::move(features_nh), {}};
  }
  if (seen.empty() || heard.empty()) return seen.empty() ? heard : seen;
  for (auto& addition : seen.deepstack)
    addition = at::cat({addition, at::zeros({heard.rows_n.size(0), addition.size(1)}, addition.options())});
  return {at::cat({seen.rows_n, heard.rows_n}), at::cat({seen.embeddings_nh, heard.embeddings_nh}), std::move(seen.deepstack)};
}

void MediaEncoder::set_cache(std::shared_ptr<TowerCache> cache) {
  if (decoder_.vision) {
    const auto& config = decoder_.vision->config;
    vision_digest_ = digest_of(*decoder_.vision);
    if (!vision_digest_.empty())
      vision_digest_ +=
          fmt::format(" window {} full {} theta {} deepstack {}", config.window_size,
                      fmt::join(config.full_attention_blocks, ","), config.rope_theta, fmt::join(config.deepstack_blocks, ","));
  }
  if (decoder_.audio) {
    const auto& config = decoder_.audio->config;
    audio_digest_ = digest_of(*decoder_.audio);
    if (!audio_digest_.empty()) audio_digest_ += fmt::format(" chunk {} x {}", config.chunk, config.chunks_in_window);
  }
  if (vision_digest_.empty() && audio_digest_.empty())
    throw UserError(
        ExitCode::usage,
        fmt::format("`tower_cache` keeps outputs of towers that do not train, and {} has none", decoder_.config.architecture),
        "leave it out, or freeze the tower and its aligner");
  cache_ = std::move(cache);
}

// A video in the batch makes its images repeat their frames.
static Tensor one_frame_of_stills(const Tensor& rows_pr, const PatchGrid& grid, const VisionConfig& config) {
  if (grid.is_video || rows_pr.size(1) < config.row_size() || config.temporal_patch_size == 1) return rows_pr;
  const auto frames = rows_pr.view({rows_pr.size(0), config.in_channels, config.temporal_patch_size, -1});
  return frames.select(2, 0).reshape({rows_pr.size(0), -1});
}

// One image at a time: its features must not depend on the other images, not even in the last bit.
VisionFeatures MediaEncoder::cached(const ImageInput& images, bool training) const {
  std::vector<TensorList> parts;
  int64_t first = 0;
  for (const auto& grid : images.grids) {
    const int64_t patches = grid.frames * grid.height * grid.width;
    const auto rows_pr = one_frame_of_stills(images.patches_pr.narrow(0, first, patches), grid, decoder_.vision->config);
    first += patches;
    const auto key = medium_digest(vision_digest_, rows_pr, grid.str());
    auto found = cache_->get(key, rows_pr.device(), [&] {
      auto made = decoder_.vision->forward(rows_pr, {grid}, {training});
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

Tensor MediaEncoder::cached(const AudioInput& audio, bool training) const {
  TensorList parts;
  int64_t first = 0;
  for (const int64_t length : audio.lengths) {
    const auto frames_fm = audio.frames_fm.narrow(0, first, length);
    first += length;
    const auto key = medium_digest(audio_digest_, frames_fm, std::to_string(length));
    auto compute = [&] { return TensorList{decoder_.audio->forward(frames_fm, {length}, {training})}; };
    parts.push_back(cache_->get(key, frames_fm.device(), compute).front());
  }
  return at::cat(parts);
}

}  // namespace hone::model
