#include "hone/media/decode_audio.h"

namespace hone::media {

int64_t samples_at(const AudioHeader& header, int64_t rate) { return (header.samples * rate + header.rate - 1) / header.rate; }

}  // namespace hone::media
