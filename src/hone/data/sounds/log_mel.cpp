#include "hone/data/sounds/log_mel.h"

#include <cmath>

#include "hone/base/error.h"

namespace hone::data {
namespace {

constexpr double kKnee = 1000, kMelsAtKnee = 15, kMostFrequency = 8000;  // below this frequency the scale is linear

double to_mels(double frequency) {
  return frequency < kKnee ? 3 * frequency / 200 : kMelsAtKnee + std::log(frequency / kKnee) * 27 / std::log(6.4);
}

double to_frequency(double mels) {
  return mels < kMelsAtKnee ? 200 * mels / 3 : kKnee * std::exp(std::log(6.4) / 27 * (mels - kMelsAtKnee));
}

}  // namespace

at::Tensor mel_filters(int64_t bins) {
  const int64_t count = kMelWindow / 2 + 1;
  std::vector<double> corners;
  for (int64_t i = 0; i < bins + 2; ++i)
    corners.push_back(to_frequency(to_mels(kMostFrequency) * static_cast<double>(i) / static_cast<double>(bins + 1)));
  auto filters = at::zeros({count, bins}, at::kDouble);
  auto* out = filters.data_ptr<double>();
  for (int64_t f = 0; f < count; ++f) {
    const double frequency = static_cast<double>(kAudioRate) / 2 * static_cast<double>(f) / static_cast<double>(count - 1);
    for (int64_t bin = 0; bin < bins; ++bin) {
      const auto* corner = &corners[static_cast<size_t>(bin)];
      const double up = (frequency - corner[0]) / (corner[1] - corner[0]),
                   down = (corner[2] - frequency) / (corner[2] - corner[1]);
      out[f * bins + bin] = std::max(0.0, std::min(up, down)) * 2 / (corner[2] - corner[0]);
    }
  }
  return filters.to(at::kFloat);
}

at::Tensor log_mel(const at::Tensor& samples_l, int64_t bins) {
  HONE_CHECK(samples_l.numel() > kMelWindow / 2, "{} samples for a spectrogram", samples_l.numel());
  const auto window = at::hann_window(kMelWindow, at::kFloat);
  auto spectrum = at::stft(samples_l, kMelWindow, kMelHop, kMelWindow, window, /*center=*/true, "reflect", /*normalized=*/false,
                           /*onesided=*/true, /*return_complex=*/true);
  auto power = spectrum.narrow(-1, 0, spectrum.size(-1) - 1).abs().square().contiguous();
  auto spec = at::matmul(mel_filters(bins).t(), power).clamp_min(1e-10).log10();
  spec = at::maximum(spec, spec.max() - 8.0);
  return ((spec + 4.0) / 4.0).t().contiguous();
}

}  // namespace hone::data
