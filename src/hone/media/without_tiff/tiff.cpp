#include "hone/media/with_images/decoders.h"

namespace hone::media {

Result<Image> decode_tiff(std::string_view, ImageSize) {
  return error("a TIFF file, and this build has no libtiff; install libtiff-dev and build again");
}

}  // namespace hone::media
