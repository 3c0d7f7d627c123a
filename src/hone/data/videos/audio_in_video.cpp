#include "hone/data/videos/audio_in_video.h"

#include <algorithm>
#include <cmath>

#include "hone/data/encode/media_tags.h"

namespace hone::data {
namespace {

void add_run(std::vector<PlaceholderRun>& runs, int64_t tokens, Placeholder kind) {
  if (tokens == 0) return;
  if (!runs.empty() && runs.back().kind == kind)
    runs.back().tokens += tokens;
  else
    runs.push_back({tokens, kind});
}

// A token whose time has reached the end of the chunk starts the next one, one chunk at a time, as in transformers: a video whose
// timestamps skip a chunk lags behind its audio.
template <class Time>
std::vector<int64_t> chunk_lengths(int64_t tokens, double chunk, Time time_of) {
  std::vector<int64_t> lengths;
  int64_t begin = 0;
  for (int64_t i = 0; i < tokens; ++i)
    if (time_of(i) >= static_cast<double>(lengths.size() + 1) * chunk) {
      lengths.push_back(i - begin);
      begin = i;
    }
  lengths.push_back(tokens - begin);
  return lengths;
}

}  // namespace

std::vector<PlaceholderRun> mix_by_time(const Picture& video, const Sound& sound) {
  const auto& config = video.config->video;
  const int64_t cells = video.geometry.tokens / video.geometry.frames;
  auto seen_at = [&](int64_t i) {
    return static_cast<double>(i / cells) * static_cast<double>(video.seconds) * config.tokens_per_second;
  };
  std::vector<PlaceholderRun> runs;
  if (config.sound == SoundMix::chunks) {
    const double chunk = std::floor(config.tokens_per_second * config.chunk_seconds);
    const auto seen = chunk_lengths(video.geometry.tokens, chunk, seen_at);
    const auto heard = chunk_lengths(sound.tokens, chunk, [](int64_t i) { return static_cast<double>(i); });
    for (size_t i = 0; i < std::max(seen.size(), heard.size()); ++i) {
      if (i < seen.size()) add_run(runs, seen[i], Placeholder::video);
      if (i < heard.size()) add_run(runs, heard[i], Placeholder::sound);
    }
    return runs;
  }
  int64_t seen = 0, heard = 0;
  while (seen < video.geometry.tokens && heard < sound.tokens) {
    const bool is_next = seen_at(seen) <= static_cast<double>(heard);
    add_run(runs, 1, is_next ? Placeholder::video : Placeholder::sound);
    ++(is_next ? seen : heard);
  }
  add_run(runs, video.geometry.tokens - seen, Placeholder::video);
  add_run(runs, sound.tokens - heard, Placeholder::sound);
  return runs;
}

void drop_track_tags(std::vector<Message>& messages, const MediaTags& tags) {
  for (auto& message : messages) {
    auto& text = message.content;
    size_t behind = 0;
    for (size_t video = text.find(tags.video); video != text.npos; video = text.find(tags.video, video + tags.video.size())) {
      const size_t audio = text.find(tags.audio, std::max(video, behind));
      if (audio == text.npos)
        throw MediaError(
            fmt::format("a {} without an {} after it; use_audio_in_video needs one for its sound", tags.video, tags.audio));
      text.erase(audio, tags.audio.size());
      behind = audio;
    }
  }
}

}  // namespace hone::data
