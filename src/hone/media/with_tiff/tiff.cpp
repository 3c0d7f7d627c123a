// TIFF files by libtiff, with the samples of Pillow: the first page, rotated as its orientation says.
#include <algorithm>
#include <cstring>
#include <span>

#include "hone/media/tiff_tags.h"
#include "hone/media/with_images/decoders.h"
#include "hone/media/with_tiff/tiff_file.h"

namespace hone::media {
namespace {

// What the samples behind the colors are. The first one counts, as in Pillow.
enum class Extra { none, ignored, premultiplied, alpha };

Extra extra_of(std::string_view bytes, const TiffLayout& layout, size_t colors) {
  if (layout.samples == colors) return Extra::none;
  const auto tags = TiffTags::read(bytes);
  const auto kinds = tags ? tags->values(TiffTag::extra_samples) : std::vector<uint64_t>();
  if (!kinds.empty() && kinds[0] == EXTRASAMPLE_ASSOCALPHA) return Extra::premultiplied;
  return !kinds.empty() && kinds[0] == EXTRASAMPLE_UNSPECIFIED ? Extra::ignored : Extra::alpha;
}

template <class T>
T number_at(const std::vector<uint8_t>& samples, size_t i) {
  T value;
  std::memcpy(&value, samples.data() + i * sizeof(T), sizeof(T));
  return value;
}

// Pillow clips wide gray levels instead of scaling them.
template <class T>
std::vector<uint8_t> clipped(const std::vector<uint8_t>& samples) {
  std::vector<uint8_t> out(samples.size() / sizeof(T));
  for (size_t i = 0; i < out.size(); ++i) {
    const T value = number_at<T>(samples, i);
    out[i] = value >= T{255} ? 255 : value > T{0} ? static_cast<uint8_t>(value) : uint8_t{0};  // not a number: 0
  }
  return out;
}

// Pillow keeps the high byte of 16-bit color samples.
std::vector<uint8_t> high_bytes(const std::vector<uint8_t>& samples) {
  std::vector<uint8_t> out(samples.size() / 2);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint8_t>(number_at<uint16_t>(samples, i) >> 8);
  return out;
}

// The first channels of every pixel.
std::vector<uint8_t> first_channels(const std::vector<uint8_t>& samples, size_t from, size_t to) {
  if (from == to) return samples;
  std::vector<uint8_t> out(samples.size() / from * to);
  for (size_t i = 0; i < out.size(); ++i) out[i] = samples[i / to * from + i % to];
  return out;
}

void divide_by_alpha(std::vector<uint8_t>& pixels, size_t channels) {
  for (size_t at = 0; at + channels <= pixels.size(); at += channels) {
    const int alpha = pixels[at + channels - 1];
    for (size_t c = 0; c + 1 < channels; ++c)
      pixels[at + c] = static_cast<uint8_t>(alpha == 0     ? 0
                                            : alpha == 255 ? pixels[at + c]
                                                           : std::min(255, 255 * pixels[at + c] / alpha));
  }
}

Error unsupported(const TiffLayout& layout) {
  return error("a TIFF file of {} samples of {} bits in colour space {}, which is not supported", layout.samples, layout.bits,
               layout.photometric);
}

Result<Image> gray(const TiffLayout& layout, std::vector<uint8_t> samples, Extra extra) {
  Image image{layout.size, 1, layout.bits == 1, {}};
  const bool dark_is_high = layout.photometric == PHOTOMETRIC_MINISWHITE, real = layout.format == SAMPLEFORMAT_IEEEFP,
             with_sign = layout.format == SAMPLEFORMAT_INT;
  if (layout.bits <= 8) {
    if (real || (extra != Extra::none && (dark_is_high || layout.samples != 2 || extra == Extra::premultiplied)))
      return unsupported(layout);
    const int most = (1 << layout.bits) - 1;
    for (auto& sample : samples) sample = static_cast<uint8_t>((dark_is_high ? most - sample : sample) * 255 / most);
    image.channels = extra == Extra::alpha ? 2 : 1;
    image.pixels = first_channels(samples, layout.samples, static_cast<size_t>(image.channels));
    return image;
  }
  if (layout.samples != 1) return unsupported(layout);
  if (layout.bits == 16 && !real)
    image.pixels = with_sign ? clipped<int16_t>(samples) : clipped<uint16_t>(samples);
  else if (layout.bits == 32)
    image.pixels = real ? clipped<float>(samples) : with_sign ? clipped<int32_t>(samples) : clipped<uint32_t>(samples);
  else
    return unsupported(layout);
  return image;
}

Result<Image> colors(const TiffLayout& layout, std::vector<uint8_t> samples, Extra extra) {
  if (layout.format != SAMPLEFORMAT_UINT || (layout.bits != 8 && layout.bits != 16)) return unsupported(layout);
  if (layout.bits == 16) samples = high_bytes(samples);
  const bool alpha = extra == Extra::alpha || extra == Extra::premultiplied;
  Image image{layout.size, alpha ? 4 : 3, false, first_channels(samples, layout.samples, alpha ? 4 : 3)};
  if (extra == Extra::premultiplied) divide_by_alpha(image.pixels, 4);
  return image;
}

Result<Image> inks(const TiffLayout& layout, std::vector<uint8_t> samples) {
  if (layout.format != SAMPLEFORMAT_UINT || (layout.bits != 8 && layout.bits != 16)) return unsupported(layout);
  if (layout.bits == 16) samples = high_bytes(samples);
  samples = first_channels(samples, layout.samples, 4);
  Image image{layout.size, 3, false, std::vector<uint8_t>(samples.size() / 4 * 3)};
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    const int light = 255 - samples[i / 3 * 4 + 3];
    image.pixels[i] = static_cast<uint8_t>(light - scaled_to_255(samples[i / 3 * 4 + i % 3], light));
  }
  return image;
}

size_t colors_of(const TiffLayout& layout) {
  switch (layout.photometric) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK:
    case PHOTOMETRIC_PALETTE:
      return 1;
    case PHOTOMETRIC_RGB:
    case PHOTOMETRIC_YCBCR:
      return 3;
    case PHOTOMETRIC_SEPARATED:
      return 4;
    default:
      return 0;
  }
}

// `size` is the one that the header was checked for.
Result<Image> stored_image(std::string_view bytes, ImageSize size) {
  auto file = TiffFile::open(bytes);
  if (!file) return Error{file.error()};
  const auto layout = (*file)->layout();
  if (layout.size != size)
    return error("a TIFF file of {} x {} whose header says {} x {}", layout.size.width, layout.size.height, size.width,
                 size.height);
  const size_t wanted = colors_of(layout);
  if (wanted == 0 || layout.samples < wanted) return unsupported(layout);
  const auto extra = extra_of(bytes, layout, wanted);
  auto samples = (*file)->read_samples();
  if (!samples) return Error{samples.error()};
  if (layout.photometric == PHOTOMETRIC_PALETTE) {
    if (layout.bits > 8) return unsupported(layout);
    const auto palette = (*file)->read_palette();
    if (!palette) return Error{palette.error()};
    return with_palette(layout.size, first_channels(*samples, layout.samples, 1), *palette);
  }
  if (wanted == 4) return inks(layout, std::move(*samples));
  return wanted == 3 ? colors(layout, std::move(*samples), extra) : gray(layout, std::move(*samples), extra);
}

// EXIF's eight orientations: mirrored, upside down, on a side.
Image rotated(Image image, uint64_t orientation) {
  if (orientation < 2 || orientation > 8) return image;
  const auto [width, height] = image.size;
  const bool lying = orientation >= 5, from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8,
             from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Image out{lying ? ImageSize{height, width} : image.size, image.channels, image.from_palette,
            std::vector<uint8_t>(image.pixels.size())};
  const auto channels = static_cast<size_t>(image.channels);
  for (int64_t y = 0; y < out.size.height; ++y)
    for (int64_t x = 0; x < out.size.width; ++x) {
      const int64_t column = lying ? y : x, row = lying ? x : y;
      const int64_t from = (from_bottom ? height - 1 - row : row) * width + (from_right ? width - 1 - column : column);
      std::memcpy(out.pixels.data() + static_cast<size_t>(y * out.size.width + x) * channels,
                  image.pixels.data() + static_cast<size_t>(from) * channels, channels);
    }
  return out;
}

}  // namespace

Result<Image> decode_tiff(std::string_view bytes, ImageSize size) {
  const auto header = read_tiff_size(bytes);
  if (!header) return Error{header.error()};
  const bool lies = header->orientation >= 5 && header->orientation <= 8;
  auto image = stored_image(bytes, lies ? ImageSize{size.height, size.width} : size);
  if (!image) return image;
  return rotated(std::move(*image), header->orientation);
}

}  // namespace hone::media
