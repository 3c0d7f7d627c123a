// Videos, files or lists of frames, as qwen_vl_utils and LLaMA-Factory read them: all frames are brought to one size.
#pragma once
#include <span>

#include "hone/data/encode/pictures.h"

namespace hone::data {

// `source` is a file, or a list of frames as JSON text. It is planned from headers. One picture, or, in models that write the
// time of every pair of frames, one for each pair. Errors name the video, or the frame of a list.
Result<std::vector<Picture>> plan_video(const std::string& source, const std::shared_ptr<const PictureConfig>& config);

// The frames of a list, which is JSON text.
Result<std::vector<std::string>> listed_frames(const std::string& source);

// The rows of a picture with frames, or of several that are parts of one file, decoded.
std::optional<Error> fill_video_rows(std::span<const Picture> parts, std::span<float> rows);

// Where video files come from: they may be larger than pictures.
media::SourceRules video_sources(const PictureConfig& config);

}  // namespace hone::data
