#include "hone/media/decode_audio.h"

namespace hone::media {

std::optional<Error> check_sound_format(int64_t rate, int64_t channels) {
  constexpr int64_t kLeastRate = 1000, kMostRate = 768'000, kMostChannels = 64;
  if (rate < kLeastRate || rate > kMostRate) return error("{} samples a second; expected {} to {}", rate, kLeastRate, kMostRate);
  if (channels < 1 || channels > kMostChannels) return error("{} channels; expected 1 to {}", channels, kMostChannels);
  return std::nullopt;
}

int64_t samples_at(const AudioHeader& header, int64_t rate) { return (header.samples * rate + header.rate - 1) / header.rate; }

}  // namespace hone::media
