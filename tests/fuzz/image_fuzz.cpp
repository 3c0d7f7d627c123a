// Any bytes as a picture: the header is read or refused, what is decoded has the header's size, and it becomes rows of patches.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hone/media/decode_image.h"
#include "hone/media/image_header.h"
#include "hone/media/image_processor.h"

namespace {

namespace media = hone::media;

void fill_rows(const media::Image& image, media::ResizeRule rule) {
  media::ImageProcessorConfig config;
  config.max_pixels = config.factory_max_pixels = 64 * 28 * 28;
  config.rule = rule;
  const auto plan = media::plan_image(image.size, config);
  if (!plan) return;
  std::vector<float> rows(static_cast<size_t>(plan->patches() * config.row_size()));
  media::fill_patch_rows(image, *plan, config, rows);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto header = media::read_image_header(bytes);
  if (!header || header->size.pixels() > 1 << 22) return 0;  // larger ones only take longer
  const auto image = media::decode_image(bytes);
  if (!image) return 0;
  if (image->size != header->size || image->pixels.size() != static_cast<size_t>(image->size.pixels() * image->channels))
    __builtin_trap();
  for (const auto rule : {media::ResizeRule::qwen_vl_utils, media::ResizeRule::factory, media::ResizeRule::ovis})
    fill_rows(*image, rule);
  return 0;
}
