#include "hone/data/batches/audio_batch.h"

#include "hone/data/batches/image_batch.h"

namespace hone::data {

bool has_sounds(std::span<const SamplePack> packs) {
  for (const auto& pack : packs)
    for (const auto& sample : pack)
      if (!sample.sounds.empty()) return true;
  return false;
}

BatchAudio decode_sounds(std::vector<SamplePack>& packs, const std::function<void(Sample&, const std::string&)>& failed,
                         const std::function<bool()>& is_cancelled) {
  BatchAudio audio;
  std::vector<int64_t> rows;
  int64_t frames = 0, bins = 0, first = 0;
  for (const auto& pack : packs)
    for (const auto& sample : pack) {
      for (const auto& sound : sample.sounds) {
        audio.lengths.push_back(sound.frames);
        audio.tokens.push_back(sound.tokens);
        frames += sound.frames;
        bins = sound.config->mel_bins;
        for (int64_t i = 0; i < sound.tokens; ++i) rows.push_back(first + static_cast<int64_t>(sound.position(i)));
      }
      first += static_cast<int64_t>(sample.ids.size());
    }
  if (frames == 0) return audio;
  audio.rows_n = at::tensor(rows, at::kLong);
  audio.frames_fm = at::zeros({frames, bins}, at::kFloat);
  float* to = audio.frames_fm.data_ptr<float>();
  for (auto& pack : packs)
    for (auto& sample : pack)
      for (const auto& sound : sample.sounds) {
        if (is_cancelled()) return audio;
        auto values = mel_rows(sound);
        if (values)
          std::copy(values->begin(), values->end(), to);
        else
          failed(sample, values.error());
        to += sound.frames * bins;
      }
  return audio;
}

BatchAudio load_sounds(std::vector<SamplePack>& packs) {
  return decode_sounds(packs, forget_labels, [] { return false; });
}

}  // namespace hone::data
