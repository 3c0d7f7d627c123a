#include "hone/media/decode_image.h"

namespace hone::media {

Result<Image> decode_image(std::string_view) {
  return error("this build has no image decoders; install libpng-dev, libjpeg62-turbo-dev and libwebp-dev and build again");
}

}  // namespace hone::media
