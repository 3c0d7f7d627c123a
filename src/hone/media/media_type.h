// The MIME type of an image, a video or a recording, by its first bytes.
#pragma once
#include <string>
#include <string_view>

namespace hone::media {

// "image/png", "video/mp4", "audio/wav" …; application/octet-stream if unknown.
std::string media_type(std::string_view bytes);

}  // namespace hone::media
