// A TIFF file in memory, opened by libtiff with limits, and the layout of its samples.
#pragma once
#include <tiffio.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "hone/base/error.h"
#include "hone/media/image.h"

namespace hone::media {

struct TiffLayout {
  ImageSize size;  // as stored
  uint16_t bits = 1, samples = 1, photometric = 0, format = SAMPLEFORMAT_UINT, compression = COMPRESSION_NONE;
  bool planes = false;  // the samples of a colour together, not those of a pixel

  size_t sample_bytes() const { return bits < 8 ? 1 : bits / 8u; }
};

class TiffFile {
 public:
  static Result<std::unique_ptr<TiffFile>> open(std::string_view bytes);
  ~TiffFile();
  TiffFile(const TiffFile&) = delete;
  TiffFile& operator=(const TiffFile&) = delete;

  const TiffLayout& layout() const { return layout_; }
  // All samples, pixel by pixel, in the byte order of this machine; samples of fewer than 8 bits take a byte.
  Result<std::vector<uint8_t>> read_samples();
  // The three parts of the color table, one after another, of a palette picture.
  Result<std::string> read_palette();

 private:
  explicit TiffFile(std::string_view bytes) : bytes_(bytes) {}
  Error damaged() const;
  std::optional<Error> read_layout();
  void place_row(const uint8_t* row, ImageBox box, int64_t y, size_t plane, std::vector<uint8_t>& out) const;

  static tmsize_t read_bytes(thandle_t file, void* out, tmsize_t count);
  static toff_t seek(thandle_t file, toff_t offset, int whence);
  static int keep_error(TIFF*, void* file, const char*, const char* format, va_list words);

  std::string_view bytes_;
  size_t at_ = 0;
  std::string problem_;
  TIFF* tiff_ = nullptr;
  TiffLayout layout_;
};

}  // namespace hone::media
