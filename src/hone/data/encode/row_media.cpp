#include "hone/data/encode/row_media.h"

#include <algorithm>

#include "hone/base/strings/counted.h"
#include "hone/data/encode/media_tags.h"
#include "hone/data/encode/objects.h"
#include "hone/data/encode/picture_config.h"
#include "hone/data/formats/checks.h"
#include "hone/data/sounds/sound_config.h"
#include "hone/data/videos/audio_in_video.h"
#include "hone/data/videos/frames_as_images.h"
#include "hone/data/videos/videos.h"

namespace hone::data {

using text::TokenId;

// Without the media it refers to, a row would train on responses about unseen content.
Result<RowMedia> MediaProcessor::open(const Conversation& conversation) const {
  auto visual = open_visual(conversation);
  if (!visual) return Error{visual.error()};
  auto audio = open_audio(conversation);
  if (!audio) return Error{audio.error()};
  RowMedia media{std::move(*visual), std::move(*audio), {}};
  if (auto problem = open_tracks(conversation, media)) return std::move(*problem);
  return media;
}

// Videos with their audio: from the file, as in ms-swift, or the row's own audios, as in LLaMA-Factory.
std::optional<Error> MediaProcessor::open_tracks(const Conversation& conversation, RowMedia& media) const {
  auto& videos = media.visual.videos;
  if (videos.empty() || pictures_->video.sound == SoundMix::none) return std::nullopt;
  auto failed = [&](const std::string& what) { return row_error(RowProblem::media, conversation.origin.str(), what); };
  if (dialect_ == Dialect::factory) {
    if (media.audio.size() != videos.size())
      return failed(fmt::format("{} and {}; use_audio_in_video takes one for each video's sound", counted(videos.size(), "video"),
                                counted(media.audio.size(), "audio")));
    media.tracks = std::exchange(media.audio, {});
  } else {
    for (const auto& source : conversation.videos)
      if (source.starts_with("["))
        return failed("a list of frames, which has no sound; expected a video file (USE_AUDIO_IN_VIDEO)");
    auto config = std::make_shared<SoundConfig>(*sounds_);
    config->sources = video_sources(*pictures_);
    auto tracks = open_sounds(conversation.videos, config);
    if (!tracks) return failed(tracks.error());
    media.tracks = std::move(*tracks);
  }
  for (size_t i = 0; i < videos.size(); ++i) videos[i].front().mixed = mix_by_time(videos[i].front(), media.tracks[i]);
  return std::nullopt;
}

Result<std::vector<Sound>> MediaProcessor::open_audio(const Conversation& conversation) const {
  if (conversation.audios.empty()) return std::vector<Sound>();
  auto failed = [&](const std::string& what) { return row_error(RowProblem::media, conversation.origin.str(), what); };
  if (!sounds_) return failed("audios for a model without audio input; train one with an audio tower, or drop the audios");
  auto sounds = open_sounds(conversation.audios, sounds_);
  return sounds ? sounds : failed(sounds.error());
}

Result<VisualMedia> MediaProcessor::open_visual(const Conversation& conversation) const {
  auto failed = [&](const std::string& what) { return row_error(RowProblem::media, conversation.origin.str(), what); };
  VisualMedia media;
  const bool reads_names = pictures_ && dialect_ != Dialect::factory;
  const auto named = reads_names ? named_images(conversation) : std::vector<std::string>();
  if (!named) return failed(named.error());
  const auto& sources = conversation.images.empty() ? *named : conversation.images;
  if (sources.empty() && conversation.videos.empty()) return media;
  const char* kind = sources.empty() ? "videos" : "images";
  if (!pictures_) return failed(fmt::format("{0} for a text-only model; train one with a vision tower, or drop the {0}", kind));
  if (!conversation.videos.empty() && pictures_->video_pad < 0)
    return failed("videos for a model without video input; expected images");
  const bool one_video = pictures_->video.frame_kind == FrameKind::stacked;
  if (one_video && !conversation.videos.empty() && conversation.videos.size() + sources.size() > 1)
    return failed(fmt::format("{} and {}; this model takes one video in a row, and no image with it",
                              counted(conversation.videos.size(), "video"), counted(sources.size(), "image")));
  auto images = open_pictures(sources, conversation.videos.empty() ? pictures_ : beside_videos(pictures_));
  if (!images) return failed(images.error());
  media.images = std::move(*images);
  for (const auto& source : conversation.videos) {
    auto parts = video_pictures(source, pictures_);
    if (!parts) return failed(parts.error());
    media.videos.push_back(std::move(*parts));
  }
  return media;
}

MarkedConversation MediaProcessor::marked(const Conversation& conversation, const RowMedia& media) const {
  const auto rule = dialect_ == Dialect::factory ? TagRule::must_match : TagRule::add_missing;
  MarkedConversation marked{conversation, {}, {}};
  if (pictures_ && rule == TagRule::add_missing) put_image_tags(marked.conversation);
  auto mark = [&](std::vector<Message>& messages, std::vector<Picture>& pictures) {
    if (pictures_) fill_objects(messages, conversation.extra, media.visual.images, pictures_->boxes);
    if (rule == TagRule::must_match && !media.tracks.empty()) drop_track_tags(messages, conversation.tags);
    auto found = mark_pictures(std::move(messages), media.visual, rule, conversation.tags);
    messages = std::move(found.messages);
    pictures = std::move(found.pictures);
    mark_sounds(messages, media.audio, rule, conversation.tags.audio);
  };
  mark(marked.conversation.messages, marked.pictures);
  if (!conversation.rejected.empty()) mark(marked.conversation.rejected, marked.rejected);
  warn_of_surplus_tags(marked.conversation);
  return marked;
}

// Placeholders [first, end) and the marker tokens around them are masked; LLaMA-Factory trains on them in responses.
void MediaProcessor::mask(size_t first, size_t end, Sample& sample) const {
  if (dialect_ == Dialect::factory) return;
  first = first > 0 ? first - 1 : 0;
  auto forget = [&](auto& values, auto nothing) {
    const size_t last = std::min(end + 1, values.size());
    if (first < last)
      std::fill(values.begin() + static_cast<ptrdiff_t>(first), values.begin() + static_cast<ptrdiff_t>(last), nothing);
  };
  forget(sample.labels, kIgnore);
  forget(sample.loss_scale, 0.0f);
}

namespace {

// Assigns the placeholders of a sample to its media, in order.
class PlaceholderCursor {
 public:
  PlaceholderCursor(const std::vector<TokenId>& ids) : ids_(ids) {}

  // `count` consecutive ids equal to `pad`, from the next position on. Throws if truncation removed some.
  std::vector<size_t> take(int64_t count, TokenId pad, const char* kind) {
    std::vector<size_t> positions;
    for (int64_t i = 0; i < count; ++i, ++at) {
      if (at >= ids_.size() || ids_[at] != pad)
        throw MediaError(
            fmt::format("max_length truncates {} of {}; raise it, or give a smaller one", kind, counted(count, "token")));
      positions.push_back(at);
    }
    return positions;
  }

  size_t at = 0;

 private:
  const std::vector<TokenId>& ids_;
};

}  // namespace

// Records the position of each medium's placeholders.
void MediaProcessor::assign(std::vector<Picture> pictures, const RowMedia& media, Sample& sample) const {
  PlaceholderCursor cursor(sample.ids);
  size_t picture = 0, sound = 0, track = 0;
  auto is_picture = [&](TokenId id) { return pictures_ && (id == pictures_->pad || id == pictures_->video_pad); };
  auto assign_mixed = [&](Picture& video) {
    auto own = media.tracks[track++];
    for (const auto& run : video.mixed) {
      const bool is_sound = run.kind == Placeholder::sound;
      const auto positions = cursor.take(run.tokens, is_sound ? sounds_->pad : pictures_->video_pad, "a video");
      auto& all = is_sound ? own.scattered : video.scattered;
      all.insert(all.end(), positions.begin(), positions.end());
    }
    own.first = own.scattered.front();
    sample.sounds.push_back(std::move(own));
    mask(video.first - 1, cursor.at + 1, sample);
  };
  while (cursor.at < sample.ids.size()) {
    const size_t at = cursor.at;
    if (is_picture(sample.ids[at])) {
      if (picture == pictures.size() || sample.ids[at] != pictures[picture].placeholder()) refuse_spelled("image");
      auto& next = pictures[picture++];
      next.first = at;
      if (!next.mixed.empty()) {
        assign_mixed(next);
        continue;
      }
      cursor.take(next.geometry.tokens, next.placeholder(), next.is_video() ? "a video" : "an image");
      mask(at, cursor.at, sample);
    } else if (sounds_ && sample.ids[at] == sounds_->pad) {
      if (sound == media.audio.size()) refuse_spelled("audio");
      auto next = media.audio[sound++];
      next.first = at;
      cursor.take(next.tokens, sounds_->pad, "an audio");
      sample.sounds.push_back(std::move(next));
      mask(at, cursor.at, sample);
    } else {
      ++cursor.at;
    }
  }
  require_placed(picture, pictures.size(), "image");
  require_placed(sound, media.audio.size(), "audio");
  sample.pictures = std::move(pictures);
}

}  // namespace hone::data
