#include "hone/media/tiff_tags.h"

#include <limits>
#include <utility>

namespace hone::media {
namespace {

Error truncated_tiff(std::string_view bytes) { return error("the TIFF file is truncated after {} bytes", bytes.size()); }

// Bytes of a whole number of a TIFF type; 0: another type.
size_t type_length(uint64_t type) {
  switch (type) {
    case 1:
      return 1;
    case 3:
      return 2;
    case 4:
      return 4;
    case 16:
      return 8;
    default:
      return 0;
  }
}

}  // namespace

uint64_t TiffTags::number(size_t at, size_t length) const {
  uint64_t value = 0;
  for (size_t i = 0; i < length; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes_[big_end_ ? at + i : at + length - 1 - i]);
  return value;
}

Result<TiffTags> TiffTags::read(std::string_view bytes) {
  if (bytes.size() < 16) return truncated_tiff(bytes);
  TiffTags tags;
  tags.bytes_ = bytes;
  tags.big_end_ = bytes[0] == 'M';
  tags.wide_ = tags.number(2, 2) == 43;
  const uint64_t at = tags.wide_ ? tags.number(8, 8) : tags.number(4, 4);
  const size_t count_length = tags.wide_ ? 8 : 2, entry = tags.wide_ ? 20 : 12;
  if (at > bytes.size() || bytes.size() - at < count_length) return truncated_tiff(bytes);
  tags.directory_ = at + count_length;
  const uint64_t count = tags.number(at, count_length);
  if (count == 0) return error("a TIFF file without a directory");
  if (count > (bytes.size() - tags.directory_) / entry) return truncated_tiff(bytes);
  tags.entries_ = count;
  return tags;
}

std::vector<uint64_t> TiffTags::values(TiffTag tag) const {
  const size_t entry = wide_ ? 20 : 12, word = wide_ ? 8 : 4;
  for (size_t i = 0; i < entries_; ++i) {
    const size_t at = directory_ + i * entry;
    if (number(at, 2) != static_cast<uint64_t>(tag)) continue;
    const size_t length = type_length(number(at + 2, 2));
    const uint64_t count = number(at + 4, word);
    if (length == 0 || count > bytes_.size() / length) return {};
    size_t from = at + 4 + word;
    if (count * length > word) {
      const uint64_t offset = number(from, word);
      if (offset > bytes_.size() || bytes_.size() - offset < count * length) return {};
      from = offset;
    }
    std::vector<uint64_t> found(count);
    for (size_t k = 0; k < count; ++k) found[k] = number(from + k * length, length);
    return found;
  }
  return {};
}

uint64_t TiffTags::value(TiffTag tag, uint64_t otherwise) const {
  const auto found = values(tag);
  return found.empty() ? otherwise : found[0];
}

Result<TiffSize> read_tiff_size(std::string_view bytes) {
  const auto tags = TiffTags::read(bytes);
  if (!tags) return Error{tags.error()};
  const uint64_t width = tags->value(TiffTag::width, 0), height = tags->value(TiffTag::height, 0);
  constexpr uint64_t kMost = std::numeric_limits<int32_t>::max();
  if (width > kMost || height > kMost) return error("{} x {} pixels, more than a picture has", width, height);
  const bool tiled = !tags->values(TiffTag::tile_offsets).empty();
  const auto offsets = tags->values(tiled ? TiffTag::tile_offsets : TiffTag::strip_offsets),
             lengths = tags->values(tiled ? TiffTag::tile_lengths : TiffTag::strip_lengths);
  if (offsets.empty()) return truncated_tiff(bytes);
  for (size_t i = 0; i < offsets.size(); ++i)
    if (offsets[i] > bytes.size() || (i < lengths.size() && lengths[i] > bytes.size() - offsets[i])) return truncated_tiff(bytes);
  TiffSize found{{static_cast<int64_t>(width), static_cast<int64_t>(height)}, tags->value(TiffTag::orientation, 1)};
  if (found.orientation >= 5 && found.orientation <= 8) std::swap(found.size.width, found.size.height);
  return found;
}

}  // namespace hone::media
