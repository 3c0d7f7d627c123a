// libsndfile decodes from memory; libsoxr resamples with librosa's quality setting.
#include "hone/media/decode_audio.h"

#include <sndfile.h>
#include <soxr.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "hone/media/audio_track.h"

namespace hone::media {
namespace {

using namespace std::string_view_literals;

constexpr sf_count_t kBlock = 1 << 14;  // frames decoded at a time

// An in-memory file for libsndfile.
struct BytesFile {
  std::string_view bytes;
  sf_count_t at = 0;
};

sf_count_t length_of(void* user) { return static_cast<sf_count_t>(static_cast<BytesFile*>(user)->bytes.size()); }
sf_count_t place_in(void* user) { return static_cast<BytesFile*>(user)->at; }

sf_count_t move_in(sf_count_t offset, int whence, void* user) {
  auto& file = *static_cast<BytesFile*>(user);
  const sf_count_t size = length_of(user), from = whence == SEEK_CUR ? file.at : whence == SEEK_END ? size : 0;
  if (offset > size || offset < -size) return -1;
  if (from + offset < 0 || from + offset > size) return -1;
  return file.at = from + offset;
}

sf_count_t read_from(void* to, sf_count_t count, void* user) {
  auto& file = *static_cast<BytesFile*>(user);
  count = std::clamp<sf_count_t>(count, 0, length_of(user) - file.at);
  std::memcpy(to, file.bytes.data() + file.at, static_cast<size_t>(count));
  file.at += count;
  return count;
}

struct CloseSound {
  void operator()(SNDFILE* file) const { sf_close(file); }
};

struct OpenSound {
  std::unique_ptr<BytesFile> bytes;
  std::unique_ptr<SNDFILE, CloseSound> file;
  AudioHeader header;
};

// Common formats that are not supported.
const char* other_sound(std::string_view bytes) {
  if (bytes.size() > 12 && bytes.substr(4, 4) == "ftyp") return "an M4A, MP4 or MOV file";
  if (bytes.starts_with("\x1a\x45\xdf\xa3"sv)) return "a WebM or Matroska file";
  if (bytes.starts_with("#!AMR")) return "an AMR file";
  if (bytes.starts_with("\x30\x26\xb2\x75"sv)) return "a WMA file";
  if (bytes.starts_with("\x89PNG") || bytes.starts_with("\xff\xd8\xff"sv)) return "a picture";
  if (bytes.starts_with("<")) return "markup (a web page)";
  if (bytes.starts_with("version https://git-lfs")) return "a Git LFS pointer, not the file itself";
  return nullptr;
}

Result<OpenSound> open_sound(std::string_view bytes) {
  if (bytes.empty()) return error("0 bytes; expected a recording");
  constexpr const char* kExpected = "expected WAV, FLAC, OGG, MP3, M4A, WebM or Matroska";
  if (const auto* other = other_sound(bytes)) return error("{}; {}", other, kExpected);
  OpenSound sound{std::make_unique<BytesFile>(BytesFile{bytes}), nullptr, {}};
  SF_VIRTUAL_IO io{length_of, move_in, read_from, nullptr, place_in};
  SF_INFO info{};
  sound.file.reset(sf_open_virtual(&io, SFM_READ, &info, sound.bytes.get()));
  if (!sound.file) return error("not read as a recording ({}); {}", sf_strerror(nullptr), kExpected);
  if (auto problem = check_sound_format(info.samplerate, info.channels)) return std::move(*problem);
  if (info.frames < 1) return error("no samples; expected a recording");
  sound.header = {info.frames, info.samplerate, info.channels};
  if (static_cast<double>(info.frames) > kMostSeconds * info.samplerate)
    return error("{:.0f} seconds; at most {} are read: cut it into parts", sound.header.seconds(), kMostSeconds);
  return sound;
}

// In librosa's order: the channels of every sample are summed as floats.
Result<std::vector<float>> read_mean(OpenSound& sound) {
  const auto channels = static_cast<size_t>(sound.header.channels);
  std::vector<float> mono, block(static_cast<size_t>(kBlock) * channels);
  mono.reserve(static_cast<size_t>(sound.header.samples));
  while (static_cast<int64_t>(mono.size()) < sound.header.samples) {
    const auto count = sf_readf_float(sound.file.get(), block.data(), kBlock);
    if (count <= 0) break;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      float sum = 0;
      for (size_t c = 0; c < channels; ++c) sum += block[i * channels + c];
      mono.push_back(sum / static_cast<float>(channels));
    }
  }
  if (static_cast<int64_t>(mono.size()) < sound.header.samples)
    return error("truncated: {} samples of the {} in its header", mono.size(), sound.header.samples);
  mono.resize(static_cast<size_t>(sound.header.samples));  // the last block may contain more
  // Beyond this the power of a spectrogram is infinite in float.
  constexpr float kLoudest = 1e12f;
  if (!std::ranges::all_of(mono, [](float value) { return std::abs(value) <= kLoudest; }))
    return error("samples that are not numbers, or beyond {:g}; expected a recording", kLoudest);
  return mono;
}

// The length is librosa's: rounded up, regardless of the filter's output.
Result<std::vector<float>> resampled(const std::vector<float>& samples, const AudioHeader& header, int64_t rate) {
  if (header.rate == rate) return samples;
  std::vector<float> out(static_cast<size_t>(samples_at(header, rate)) + 64, 0.0f);
  const auto type = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
  const auto quality = soxr_quality_spec(SOXR_HQ, 0);
  const auto threads = soxr_runtime_spec(1);
  size_t read = 0, written = 0;
  if (const auto* problem = soxr_oneshot(static_cast<double>(header.rate), static_cast<double>(rate), 1, samples.data(),
                                         samples.size(), &read, out.data(), out.size(), &written, &type, &quality, &threads))
    return error("cannot be resampled from {} to {} samples a second: {}", header.rate, rate, problem);
  std::fill(out.begin() + static_cast<ptrdiff_t>(written), out.end(), 0.0f);
  out.resize(static_cast<size_t>(samples_at(header, rate)));
  return out;
}

}  // namespace

Result<AudioHeader> read_audio_header(std::string_view bytes) {
  if (has_tracks(bytes)) return read_track_header(bytes);
  auto sound = open_sound(bytes);
  if (!sound) return Error{sound.error()};
  return sound->header;
}

Result<std::vector<float>> decode_audio(std::string_view bytes, int64_t rate) {
  if (has_tracks(bytes)) {
    auto track = decode_track(bytes);
    if (!track) return Error{track.error()};
    return resampled(track->samples, track->header, rate);
  }
  auto sound = open_sound(bytes);
  if (!sound) return Error{sound.error()};
  auto samples = read_mean(*sound);
  if (!samples) return samples;
  return resampled(*samples, sound->header, rate);
}

}  // namespace hone::media
