#include "hone/media/image_header.h"

#include "hone/media/bmp_header.h"
#include "hone/media/byte_order.h"
#include "hone/media/gif_frame.h"
#include "hone/media/tiff_tags.h"

namespace hone::media {
namespace {

using namespace std::string_view_literals;

constexpr auto kPngSignature = "\x89PNG\r\n\x1a\n"sv, kPngEnd = "\0\0\0\0IEND\xae\x42\x60\x82"sv, kJpegStart = "\xff\xd8\xff"sv,
               kJpegEnd = "\xff\xd9"sv;

Error truncated(const char* format, std::string_view bytes) {
  return error("the {} file is truncated after {} bytes", format, bytes.size());
}

// Whether the last chunk is present; the chunks are walked only if something follows it.
bool png_is_whole(std::string_view bytes) {
  if (bytes.ends_with(kPngEnd)) return true;
  for (size_t at = kPngSignature.size(); bytes.size() - at >= 12;) {
    const size_t length = big32(bytes, at);
    if (bytes.size() - at - 12 < length) return false;
    if (bytes.substr(at + 4, 4) == "IEND") return true;
    at += 12 + length;
  }
  return false;
}

Result<ImageHeader> png_header(std::string_view bytes) {
  if (bytes.size() < 33) return truncated("PNG", bytes);
  if (bytes.substr(12, 4) != "IHDR") return error("a PNG file without its header chunk");
  ImageSize size{big32(bytes, 16), big32(bytes, 20)};
  if (!png_is_whole(bytes)) return truncated("PNG", bytes);
  return ImageHeader{ImageFormat::png, size};
}

bool is_start_of_frame(uint32_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

Result<ImageHeader> jpeg_header(std::string_view bytes) {
  for (size_t at = 2; at + 4 <= bytes.size();) {
    if (byte_at(bytes, at) != 0xFF) return error("a JPEG file with bytes between its segments");
    const uint32_t marker = byte_at(bytes, at + 1);
    if (marker == 0xFF) {
      ++at;  // fill bytes
      continue;
    }
    const size_t length = big16(bytes, at + 2);
    if (is_start_of_frame(marker)) {
      if (at + 9 > bytes.size()) break;
      if (const size_t end = bytes.rfind(kJpegEnd); end == std::string_view::npos || end < at) break;
      return ImageHeader{ImageFormat::jpeg, {big16(bytes, at + 7), big16(bytes, at + 5)}};
    }
    if (marker == 0xDA || length < 2) return error("a JPEG file without the header of its frame");
    at += 2 + length;
  }
  return truncated("JPEG", bytes);
}

Result<ImageHeader> webp_header(std::string_view bytes) {
  if (bytes.size() < 30) return truncated("WebP", bytes);
  if (bytes.size() - 8 < little32(bytes, 4)) return truncated("WebP", bytes);
  const auto kind = bytes.substr(12, 4);
  if (kind == "VP8X") return ImageHeader{ImageFormat::webp, {little24(bytes, 24) + 1, little24(bytes, 27) + 1}};
  if (kind == "VP8L") {
    const uint32_t bits = little32(bytes, 21);
    return ImageHeader{ImageFormat::webp, {(bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1}};
  }
  if (kind != "VP8 " || bytes.substr(23, 3) != "\x9d\x01\x2a"sv) return error("a WebP file without a picture");
  return ImageHeader{ImageFormat::webp, {little16(bytes, 26) & 0x3FFF, little16(bytes, 28) & 0x3FFF}};
}

// Common formats that are not supported.
const char* other_format(std::string_view bytes) {
  if (bytes.size() > 12 && bytes.substr(4, 4) == "ftyp") return "a HEIC, AVIF or video file";
  if (bytes.starts_with("<")) return "markup (SVG or a web page)";
  if (bytes.starts_with("%PDF")) return "a PDF file";
  if (bytes.starts_with("version https://git-lfs")) return "a Git LFS pointer, not the file itself";
  return "bytes of an unknown format";
}

bool is_tiff(std::string_view bytes) {
  const auto start = bytes.substr(0, 4);
  return start == "II*\0"sv || start == "MM\0*"sv || start == "II+\0"sv || start == "MM\0+"sv;
}

Result<ImageHeader> header_of(std::string_view bytes) {
  if (bytes.empty()) return error("0 bytes; expected a picture");
  if (bytes.starts_with(kPngSignature)) return png_header(bytes);
  if (bytes.starts_with(kJpegStart)) return jpeg_header(bytes);
  if (bytes.size() >= 12 && bytes.starts_with("RIFF") && bytes.substr(8, 4) == "WEBP") return webp_header(bytes);
  if (bytes.starts_with("GIF87a") || bytes.starts_with("GIF89a")) {
    const auto frame = read_gif_frame(bytes);
    return frame ? Result(ImageHeader{ImageFormat::gif, frame->canvas}) : Error{frame.error()};
  }
  if (bytes.starts_with("BM")) {
    const auto header = read_bmp_header(bytes);
    return header ? Result(ImageHeader{ImageFormat::bmp, header->size}) : Error{header.error()};
  }
  if (is_tiff(bytes)) {
    const auto header = read_tiff_size(bytes);
    return header ? Result(ImageHeader{ImageFormat::tiff, header->size}) : Error{header.error()};
  }
  return error("{}; expected PNG, JPEG, WebP, GIF, BMP or TIFF", other_format(bytes));
}

}  // namespace

Result<ImageHeader> read_image_header(std::string_view bytes) {
  auto header = header_of(bytes);
  if (!header) return header;
  const auto& size = header->size;
  if (size.width <= 0 || size.height <= 0) return error("{} x {} pixels; expected a picture", size.width, size.height);
  if (size.width > kMostPixels / size.height)  // the product may overflow
    return error("{} x {} pixels, more than {}: a decompression bomb", size.width, size.height, kMostPixels);
  return header;
}

}  // namespace hone::media
