// A video that is read with its own sound: the placeholders of both, ordered by time.
#pragma once
#include "hone/data/sounds/sounds.h"

namespace hone::data {

// As the processors of transformers mix them; config.video.sound says how.
std::vector<PlaceholderRun> mix_by_time(const Picture& video, const Sound& sound);

// LLaMA-Factory's rows write <audio> behind each <video> for the sound it is read with. Takes these tags out. Throws
// text::FormatError where a video has none.
void drop_track_tags(std::vector<Message>& messages, const MediaTags& tags);

}  // namespace hone::data
