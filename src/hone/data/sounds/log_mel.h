// Whisper's log-mel spectrogram, as transformers' WhisperFeatureExtractor computes it with torch.
#pragma once
#include "hone/device/tensor.h"

namespace hone::data {

inline constexpr int64_t kAudioRate = 16000, kMelHop = 160, kMelWindow = 400;

// Triangular filters on Slaney's scale, each of one area, [window / 2 + 1, bins] float32.
at::Tensor mel_filters(int64_t bins);

// `samples` at kAudioRate, more than half a window of them, to float32 [samples / hop, bins].
at::Tensor log_mel(const at::Tensor& samples_l, int64_t bins);

}  // namespace hone::data
