// A video read together with its audio: the placeholders of both, ordered by time.
#pragma once
#include "hone/data/sounds/sounds.h"

namespace hone::data {

// As in the processors of transformers; config.video.sound selects the order.
std::vector<PlaceholderRun> mix_by_time(const Picture& video, const Sound& sound);

// LLaMA-Factory's rows have <audio> after each <video> for its audio. Removes these tags. Throws text::FormatError if a video has
// none.
void drop_track_tags(std::vector<Message>& messages, const MediaTags& tags);

}  // namespace hone::data
