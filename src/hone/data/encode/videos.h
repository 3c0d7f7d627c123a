// Videos as lists of frames, as qwen_vl_utils reads them: every frame is brought to a size by itself, then all of them to one.
#pragma once
#include "hone/data/encode/pictures.h"

namespace hone::data {

// `source` is a list of frames as JSON text. Frames are planned from their headers. One picture, or, in models that write the
// time of every pair of frames, one for each pair. Errors name the frame.
Result<std::vector<Picture>> plan_video(const std::string& source, const std::shared_ptr<const PictureConfig>& config);

// The rows of a picture with frames, decoded.
Result<std::vector<float>> video_rows(const Picture& picture);

}  // namespace hone::data
