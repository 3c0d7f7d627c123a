// The numbers in the first directory of a TIFF file. libtiff decodes; the size of a picture is known without it.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "hone/base/error.h"
#include "hone/media/image.h"

namespace hone::media {

enum class TiffTag : uint16_t {
  width = 256,
  height = 257,
  strip_offsets = 273,
  orientation = 274,
  strip_lengths = 279,
  tile_offsets = 324,
  tile_lengths = 325,
  extra_samples = 338,
};

class TiffTags {
 public:
  // Errors: truncated, no directory.
  static Result<TiffTags> read(std::string_view bytes);
  // The whole numbers of a tag; none if it is absent, of another type or outside the file.
  std::vector<uint64_t> values(TiffTag tag) const;
  uint64_t value(TiffTag tag, uint64_t otherwise) const;

 private:
  uint64_t number(size_t at, size_t length) const;

  std::string_view bytes_;
  bool big_end_ = false, wide_ = false;  // wide: BigTIFF, with offsets of eight bytes
  size_t directory_ = 0, entries_ = 0;
};

// After the rotation that the file asks for, which Pillow applies to TIFF files and no others.
struct TiffSize {
  ImageSize size;
  uint64_t orientation = 1;
};

// Errors: those of the tags, data outside the file.
Result<TiffSize> read_tiff_size(std::string_view bytes);

}  // namespace hone::media
