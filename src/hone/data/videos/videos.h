// Videos, as files or lists of frames, as read by qwen_vl_utils and LLaMA-Factory: all frames are resized to one size.
#pragma once
#include <span>

#include "hone/data/encode/pictures.h"

namespace hone::data {

// `source` is a file, or a list of frames as JSON text. Reads headers only. Returns one image, or one per frame pair for models
// that write the time of every pair. Errors name the video, or the frame of a list.
Result<std::vector<Picture>> video_pictures(const std::string& source, const std::shared_ptr<const PictureConfig>& config);

// The frames of a list, which is JSON text.
Result<std::vector<std::string>> listed_frames(const std::string& source);

// Decodes the rows of an image with frames, or of several that are parts of one file.
std::optional<Error> fill_video_rows(std::span<const Picture> parts, std::span<float> rows);

// Source limits for video files, which may be larger than images.
media::SourceRules video_sources(const PictureConfig& config);

}  // namespace hone::data
