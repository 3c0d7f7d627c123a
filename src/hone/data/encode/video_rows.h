// Frames of a video to the rows that a tower reads, a group of frames at a time.
#pragma once
#include "hone/data/encode/pictures.h"

namespace hone::data {

// Where video files come from: they may be larger than pictures.
media::SourceRules video_sources(const PictureConfig& config);

}  // namespace hone::data
