// libwebp's animation decoder, which Pillow uses for still images too: the first frame on a transparent canvas.
#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>

#include "hone/media/with_images/decoders.h"

namespace hone::media {

Result<Image> decode_webp(std::string_view bytes, ImageSize size) {
  const WebPData data{reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(data.bytes, data.size, &features) != VP8_STATUS_OK) return error("a damaged WebP file");
  WebPAnimDecoderOptions options;
  if (!WebPAnimDecoderOptionsInit(&options)) return error("another version of libwebp than the one this was built for");
  options.color_mode = MODE_RGBA;
  std::unique_ptr<WebPAnimDecoder, decltype(&WebPAnimDecoderDelete)> decoder(WebPAnimDecoderNew(&data, &options),
                                                                             WebPAnimDecoderDelete);
  WebPAnimInfo info;
  if (!decoder || !WebPAnimDecoderGetInfo(decoder.get(), &info)) return error("a damaged WebP file");
  if (info.canvas_width != size.width || info.canvas_height != size.height)
    return error("a WebP file of {} x {} whose header says {} x {}", info.canvas_width, info.canvas_height, size.width,
                 size.height);
  uint8_t* canvas = nullptr;
  int timestamp = 0;
  if (!WebPAnimDecoderGetNext(decoder.get(), &canvas, &timestamp)) return error("a damaged WebP file");
  const size_t pixels = static_cast<size_t>(size.pixels());
  Image image{size, features.has_alpha ? 4 : 3, false, {}};
  if (features.has_alpha) {
    image.pixels.assign(canvas, canvas + 4 * pixels);
    return image;
  }
  image.pixels.resize(3 * pixels);
  for (size_t i = 0; i < pixels; ++i)
    for (size_t c = 0; c < 3; ++c) image.pixels[3 * i + c] = canvas[4 * i + c];
  return image;
}

}  // namespace hone::media
