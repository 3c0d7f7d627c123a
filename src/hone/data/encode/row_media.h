// The media of a row: their headers are read before the row is encoded, then they are marked in its text and assigned to the
// placeholder tokens of its sample.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "hone/data/encode/encoder.h"

namespace hone::data {

struct RowMedia {
  VisualMedia visual;
  std::vector<Sound> audio;
  std::vector<Sound> tracks;  // of each video, where they are read with their sound
  bool empty() const { return visual.empty() && audio.empty(); }
};

// A row whose tags are markers of its media.
struct MarkedConversation {
  Conversation conversation;
  std::vector<Picture> pictures, rejected;  // of the messages, and of the rejected ones
};

// Refers to the configs of an encoder.
class MediaProcessor {
 public:
  MediaProcessor(Dialect dialect, const std::shared_ptr<const PictureConfig>& pictures,
                 const std::shared_ptr<const SoundConfig>& sounds)
      : dialect_(dialect), pictures_(pictures), sounds_(sounds) {}

  // Errors are the row's: a medium that the model does not take, or that cannot be read.
  Result<RowMedia> open(const Conversation& conversation) const;
  // The two below throw MediaError.
  MarkedConversation marked(const Conversation& conversation, const RowMedia& media) const;
  void assign(std::vector<Picture> pictures, const RowMedia& media, Sample& sample) const;

 private:
  Result<VisualMedia> open_visual(const Conversation& conversation) const;
  Result<std::vector<Sound>> open_audio(const Conversation& conversation) const;
  std::optional<Error> open_tracks(const Conversation& conversation, RowMedia& media) const;
  void mask(size_t first, size_t end, Sample& sample) const;

  Dialect dialect_;
  const std::shared_ptr<const PictureConfig>& pictures_;  // null: the model takes text alone
  const std::shared_ptr<const SoundConfig>& sounds_;      // null: the model takes no audio
};

}  // namespace hone::data
