#include "hone/media/with_tiff/tiff_file.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace hone::media {
namespace {

constexpr tmsize_t kMostMemory = tmsize_t{1} << 31;  // of all samples, and of one allocation of libtiff
constexpr uint16_t kMostSamples = 6;                 // of a pixel

tmsize_t refuse_write(thandle_t, void*, tmsize_t) { return -1; }
int close_nothing(thandle_t) { return 0; }
int ignore_tiff_warning(TIFF*, void*, const char*, const char*, va_list) { return 1; }

}  // namespace

tmsize_t TiffFile::read_bytes(thandle_t file, void* out, tmsize_t count) {
  auto& self = *static_cast<TiffFile*>(file);
  const size_t found = std::min(static_cast<size_t>(count), self.bytes_.size() - self.at_);
  std::memcpy(out, self.bytes_.data() + self.at_, found);
  self.at_ += found;
  return static_cast<tmsize_t>(found);
}

toff_t TiffFile::seek(thandle_t file, toff_t offset, int whence) {
  auto& self = *static_cast<TiffFile*>(file);
  const size_t base = whence == SEEK_CUR ? self.at_ : whence == SEEK_END ? self.bytes_.size() : 0;
  if (offset > self.bytes_.size() - base) return static_cast<toff_t>(-1);
  return self.at_ = base + offset;
}

int TiffFile::keep_error(TIFF*, void* file, const char*, const char* format, va_list words) {
  char message[256];
  std::vsnprintf(message, sizeof message, format, words);
  auto& self = *static_cast<TiffFile*>(file);
  if (self.problem_.empty()) self.problem_ = message;
  return 1;
}

Error TiffFile::damaged() const {
  return error("a damaged TIFF file: {}", problem_.empty() ? "its data cannot be read" : problem_);
}

Result<std::unique_ptr<TiffFile>> TiffFile::open(std::string_view bytes) {
  std::unique_ptr<TiffFile> file(new TiffFile(bytes));
  const std::unique_ptr<TIFFOpenOptions, decltype(&TIFFOpenOptionsFree)> options(TIFFOpenOptionsAlloc(), TIFFOpenOptionsFree);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), keep_error, file.get());
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), ignore_tiff_warning, nullptr);
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMostMemory);
  const auto size = [](thandle_t self) -> toff_t { return static_cast<TiffFile*>(self)->bytes_.size(); };
  file->tiff_ = TIFFClientOpenExt("a picture", "rm", file.get(), read_bytes, refuse_write, seek, close_nothing, size, nullptr,
                                  nullptr, options.get());
  if (!file->tiff_) return file->damaged();
  if (auto problem = file->read_layout()) return *problem;
  return file;
}

TiffFile::~TiffFile() {
  if (tiff_) TIFFClose(tiff_);
}

std::optional<Error> TiffFile::read_layout() {
  uint32_t width = 0, height = 0;
  uint16_t planar = PLANARCONFIG_CONTIG;
  TIFFGetField(tiff_, TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff_, TIFFTAG_IMAGELENGTH, &height);
  TIFFGetFieldDefaulted(tiff_, TIFFTAG_BITSPERSAMPLE, &layout_.bits);
  TIFFGetFieldDefaulted(tiff_, TIFFTAG_SAMPLESPERPIXEL, &layout_.samples);
  TIFFGetFieldDefaulted(tiff_, TIFFTAG_SAMPLEFORMAT, &layout_.format);
  TIFFGetFieldDefaulted(tiff_, TIFFTAG_COMPRESSION, &layout_.compression);
  TIFFGetFieldDefaulted(tiff_, TIFFTAG_PLANARCONFIG, &planar);
  TIFFGetField(tiff_, TIFFTAG_PHOTOMETRIC, &layout_.photometric);
  layout_.size = {width, height};
  layout_.planes = planar == PLANARCONFIG_SEPARATE && layout_.samples > 1;
  const bool whole = layout_.bits == 8 || layout_.bits == 16 || layout_.bits == 32,
             small = (layout_.bits == 1 || layout_.bits == 2 || layout_.bits == 4) && layout_.samples == 1;
  if ((!whole && !small) || layout_.samples == 0 || layout_.samples > kMostSamples)
    return error("a TIFF file of {} samples of {} bits, which are not supported", layout_.samples, layout_.bits);
  if (layout_.photometric == PHOTOMETRIC_YCBCR) {
    if (layout_.compression != COMPRESSION_JPEG || layout_.planes || layout_.bits != 8 || layout_.samples != 3)
      return error("a TIFF file of YCbCr samples that are not JPEG data, which is not supported");
    TIFFSetField(tiff_, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
  }
  return std::nullopt;
}

void TiffFile::place_row(const uint8_t* row, ImageBox box, int64_t y, size_t plane, std::vector<uint8_t>& out) const {
  const size_t bytes = layout_.sample_bytes(), pixel = bytes * layout_.samples, width = static_cast<size_t>(box.size.width);
  uint8_t* to = out.data() + static_cast<size_t>(y * layout_.size.width + box.left) * pixel;
  if (layout_.bits < 8) {
    const uint32_t bits = layout_.bits, last = (1u << bits) - 1;
    for (size_t x = 0; x < width; ++x) to[x] = static_cast<uint8_t>(row[x * bits / 8] >> (8 - bits - x * bits % 8) & last);
  } else if (layout_.planes) {
    for (size_t x = 0; x < width; ++x) std::memcpy(to + x * pixel + plane * bytes, row + x * bytes, bytes);
  } else {
    std::memcpy(to, row, width * pixel);
  }
}

Result<std::vector<uint8_t>> TiffFile::read_samples() {
  const bool tiled = TIFFIsTiled(tiff_);
  uint32_t columns = static_cast<uint32_t>(layout_.size.width), rows = static_cast<uint32_t>(layout_.size.height);
  if (tiled) {
    TIFFGetField(tiff_, TIFFTAG_TILEWIDTH, &columns);
    TIFFGetField(tiff_, TIFFTAG_TILELENGTH, &rows);
  } else {
    TIFFGetFieldDefaulted(tiff_, TIFFTAG_ROWSPERSTRIP, &rows);
    rows = std::min(rows, static_cast<uint32_t>(layout_.size.height));
  }
  const tmsize_t part = tiled ? TIFFTileSize(tiff_) : TIFFStripSize(tiff_),
                 stride = tiled ? TIFFTileRowSize(tiff_) : TIFFScanlineSize(tiff_);
  const size_t all = static_cast<size_t>(layout_.size.pixels()) * layout_.samples * layout_.sample_bytes();
  if (rows == 0 || columns == 0 || part <= 0 || stride <= 0) return damaged();
  if (part > kMostMemory || all > static_cast<size_t>(kMostMemory))
    return error("a TIFF file of more than {} bytes of samples", kMostMemory);
  const size_t row_bits = size_t{columns} * layout_.bits * (layout_.planes ? 1u : layout_.samples);
  if (static_cast<size_t>(stride) < (row_bits + 7) / 8 || static_cast<size_t>(part) / static_cast<size_t>(stride) < rows)
    return damaged();
  std::vector<uint8_t> out(all), buffer(static_cast<size_t>(part));
  for (size_t plane = 0; plane < (layout_.planes ? layout_.samples : 1u); ++plane)
    for (int64_t top = 0; top < layout_.size.height; top += rows)
      for (int64_t left = 0; left < layout_.size.width; left += columns) {
        const auto x = static_cast<uint32_t>(left), y = static_cast<uint32_t>(top);
        const auto sample = static_cast<uint16_t>(plane);
        const ImageBox box{
            left,
            top,
            {std::min<int64_t>(columns, layout_.size.width - left), std::min<int64_t>(rows, layout_.size.height - top)}};
        const tmsize_t wanted = tiled ? part : static_cast<tmsize_t>(box.size.height) * stride;
        const tmsize_t found = tiled ? TIFFReadEncodedTile(tiff_, TIFFComputeTile(tiff_, x, y, 0, sample), buffer.data(), part)
                                     : TIFFReadEncodedStrip(tiff_, TIFFComputeStrip(tiff_, y, sample), buffer.data(), wanted);
        if (found != wanted) return damaged();
        for (int64_t row = 0; row < box.size.height; ++row) place_row(buffer.data() + row * stride, box, top + row, plane, out);
      }
  return out;
}

Result<std::string> TiffFile::read_palette() {
  uint16_t *red = nullptr, *green = nullptr, *blue = nullptr;
  if (!TIFFGetField(tiff_, TIFFTAG_COLORMAP, &red, &green, &blue)) return error("a TIFF file without its color table");
  std::string palette;
  for (size_t i = 0; i < size_t{1} << layout_.bits; ++i)
    for (const auto* part : {red, green, blue}) palette.push_back(static_cast<char>(part[i] >> 8));
  return palette;
}

}  // namespace hone::media
