#include "hone/data/sounds/sounds.h"

#include <cmath>

#include "hone/base/error.h"
#include "hone/base/strings/counted.h"
#include "hone/device/tensor.h"
#include "hone/text/templates/agent_format.h"

namespace hone::data {
namespace {

constexpr int64_t kAudioRate = 16000, kMelHop = 160, kMelWindow = 400;

constexpr double kKnee = 1000, kMelsAtKnee = 15, kMostFrequency = 8000;  // below this frequency the scale is linear

double to_mels(double frequency) {
  return frequency < kKnee ? 3 * frequency / 200 : kMelsAtKnee + std::log(frequency / kKnee) * 27 / std::log(6.4);
}

double to_frequency(double mels) {
  return mels < kMelsAtKnee ? 200 * mels / 3 : kKnee * std::exp(std::log(6.4) / 27 * (mels - kMelsAtKnee));
}

// Triangular filters on Slaney's scale, each of one area, [window / 2 + 1, bins] float32.
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

// Whisper's log-mel spectrogram, as transformers' WhisperFeatureExtractor computes it with torch.
// `samples` at kAudioRate, more than half a window of them, to float32 [samples / hop, bins].
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

int64_t halved(int64_t count) { return count > 0 ? (count - 1) / 2 + 1 : 0; }  // a convolution of stride 2

// With trailing zeros like the model's padding, as far as convolutions see them.
at::Tensor padded(std::vector<float> samples, const SoundConfig& config) {
  const auto count = static_cast<int64_t>(samples.size());
  if (config.rule == SoundRule::qwen2_5_omni)
    samples.resize(static_cast<size_t>(std::min(config.most_seconds * kAudioRate, (count / kMelHop + 5) * kMelHop)), 0.0f);
  return at::tensor(samples, at::kFloat);
}

}  // namespace

SoundSize sound_size(int64_t samples, const SoundConfig& config) {
  SoundSize size;
  if (config.rule == SoundRule::qwen2_5_omni) {
    size.samples = std::min(samples, config.most_seconds * kAudioRate);
    size.frames = (size.samples + kMelHop - 1) / kMelHop;
    size.tokens = halved(size.frames) / 2;
    return size;
  }
  constexpr int64_t kChunk = 100, kTokensOfChunk = 13;
  size.frames = samples / kMelHop;
  size.samples = size.frames * kMelHop;
  // The reflection padding of the spectrogram needs more than half a window of samples.
  if (size.samples > kMelWindow / 2)
    size.tokens = size.frames / kChunk * kTokensOfChunk + halved(halved(halved(size.frames % kChunk)));
  return size;
}

Result<std::vector<Sound>> open_sounds(const std::vector<std::string>& sources,
                                       const std::shared_ptr<const SoundConfig>& config) {
  std::vector<Sound> sounds;
  for (const auto& source : sources) {
    auto failed = [&](const std::string& why) { return error("audio {}: {}", media::describe_source(source), why); };
    auto medium = media::Medium::open(source, config->sources);
    if (!medium) return failed(medium.error());
    auto header = media::read_audio_header(medium->bytes());
    if (!header) return failed(header.error());
    const auto size = sound_size(media::samples_at(*header, kAudioRate), *config);
    if (size.tokens < 1) return failed(fmt::format("{:.3f} seconds are too short for a token", header->seconds()));
    sounds.push_back({source, *header, size.samples, size.frames, size.tokens, config, 0});
  }
  return sounds;
}

void mark_sounds(std::vector<Message>& messages, const std::vector<Sound>& sounds, TagRule rule, const std::string& tag) {
  if (sounds.empty() && rule != TagRule::must_match) return;
  check_tags(messages, sounds.size(), rule, tag, "audio");
  size_t next = 0;
  for (auto& message : messages) {
    auto& text = message.content;
    for (size_t at = 0; next < sounds.size() && (at = text.find(tag, at)) != text.npos;) {
      const PlaceholderRun run{sounds[next++].tokens, Placeholder::sound};
      const auto mark = media_mark({&run, 1});
      text.replace(at, tag.size(), mark);
      at += mark.size();
    }
  }
}

std::string describe(const Sound& sound) {
  return fmt::format("audio {}: {:.1f} seconds at {} Hz, {}, {}", media::describe_source(sound.source), sound.header.seconds(),
                     sound.header.rate, counted(sound.frames, "frame"), counted(sound.tokens, "token"));
}

Result<std::vector<float>> mel_rows(const Sound& sound) {
  auto failed = [&](const std::string& why) { return error("audio {}: {}", media::describe_source(sound.source), why); };
  auto medium = media::Medium::open(sound.source, sound.config->sources);
  if (!medium) return failed(medium.error());
  auto samples = media::decode_audio(medium->bytes(), kAudioRate);
  if (!samples) return failed(samples.error());
  if (static_cast<int64_t>(samples->size()) < sound.samples) return failed("it was replaced during the run");
  samples->resize(static_cast<size_t>(sound.samples));
  const auto rows = log_mel(padded(std::move(*samples), *sound.config), sound.config->mel_bins).narrow(0, 0, sound.frames);
  return std::vector<float>(rows.const_data_ptr<float>(), rows.const_data_ptr<float>() + rows.numel());
}

}  // namespace hone::data
