// Any bytes as a recording: the header is read or refused, and what is decoded has the header's length.
#include <cstddef>
#include <cstdint>

#include "hone/media/decode_audio.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace media = hone::media;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto header = media::read_audio_header(bytes);
  if (!header || header->samples * header->channels > 1 << 22) return 0;  // longer ones only take longer
  const auto samples = media::decode_audio(bytes, header->rate);
  if (samples && static_cast<int64_t>(samples->size()) != media::samples_at(*header, header->rate)) __builtin_trap();
  return 0;
}
