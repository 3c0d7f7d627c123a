// Videos of InternVL as ms-swift reads them: frames from the middles of equal segments, each an image of its own with its number
// before it.
#pragma once
#include "hone/data/encode/pictures.h"

namespace hone::data {

// `source` is a file, or a list of frames as JSON text, of which all are shown. Planned from headers.
Result<std::vector<Picture>> plan_tiled_video(const std::string& source, const std::shared_ptr<const PictureConfig>& config);

// What makes of images in a row with videos: as few tiles as of a frame.
std::shared_ptr<const PictureConfig> beside_videos(const std::shared_ptr<const PictureConfig>& config);

}  // namespace hone::data
