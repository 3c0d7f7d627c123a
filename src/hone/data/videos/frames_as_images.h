// Videos whose frames are prepared as images are: InternVL shows each as an image of its own with its number before it, Ovis2.5
// all of them as one medium.
#pragma once
#include "hone/data/encode/pictures.h"

namespace hone::data {

// `source` is a file, or a list of frames as JSON text, of which all are shown. Reads headers only. One picture for each frame,
// or, where frames are stacked, one of all. Errors name the video, or the frame of a list.
Result<std::vector<Picture>> frames_as_images(const std::string& source, const std::shared_ptr<const PictureConfig>& config);

// The image settings of a row with videos: in ms-swift, images then have no more tiles than a frame.
std::shared_ptr<const PictureConfig> beside_videos(const std::shared_ptr<const PictureConfig>& config);

}  // namespace hone::data
