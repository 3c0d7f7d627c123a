// The first frame of a GIF file. As in Pillow, the canvas around it has the transparent color or the first one.
#include <algorithm>
#include <array>
#include <span>

#include "hone/media/byte_order.h"
#include "hone/media/gif_frame.h"
#include "hone/media/with_images/decoders.h"

namespace hone::media {
namespace {

constexpr uint32_t kMostCodes = 4096, kMostCodeLength = 12;

// Codes of varying length out of blocks of up to 255 bytes.
class GifCodes {
 public:
  GifCodes(std::string_view bytes, size_t at) : bytes_(bytes), at_(at) {}

  std::optional<uint32_t> next(uint32_t length) {
    while (count_ < length) {
      if (left_ == 0 && !open_block()) return std::nullopt;
      if (at_ == bytes_.size()) return std::nullopt;
      bits_ |= byte_at(bytes_, at_++) << count_;
      count_ += 8;
      --left_;
    }
    const uint32_t code = bits_ & ((1u << length) - 1);
    bits_ >>= length;
    count_ -= length;
    return code;
  }

 private:
  bool open_block() {
    if (at_ == bytes_.size()) return false;
    left_ = byte_at(bytes_, at_++);
    return left_ > 0;
  }

  std::string_view bytes_;
  size_t at_;
  uint32_t left_ = 0, bits_ = 0, count_ = 0;
};

// The strings of LZW: each is an earlier one and a color.
class GifStrings {
 public:
  explicit GifStrings(uint32_t color_bits) : clear_(1u << color_bits), first_length_(color_bits + 1) { reset(); }

  // Appends colors until all are there.
  std::optional<Error> read(GifCodes& codes, std::span<uint8_t> out) {
    for (size_t written = 0; written < out.size();) {
      const auto code = codes.next(length_);
      if (!code) return error("the file is truncated after {} of {} pixels", written, out.size());
      if (*code == clear_) {
        reset();
        continue;
      }
      if (*code == clear_ + 1) return error("its data end after {} of {} pixels", written, out.size());
      if (*code > (fresh_ ? clear_ - 1 : next_)) return error("an undefined code");
      append(*code, out, written);
    }
    return std::nullopt;
  }

 private:
  void reset() {
    next_ = clear_ + 2;
    length_ = first_length_;
    fresh_ = true;
  }

  void append(uint32_t code, std::span<uint8_t> out, size_t& written) {
    size_t start = buffer_.size();
    uint32_t walk = code;
    if (!fresh_ && code == next_) {  // the string that this code defines
      buffer_[--start] = first_;
      walk = last_;
    }
    for (; walk >= clear_; walk = before_[walk]) buffer_[--start] = color_[walk];
    buffer_[--start] = first_ = static_cast<uint8_t>(walk);
    if (!fresh_ && next_ < kMostCodes) define();
    last_ = code, fresh_ = false;
    for (; start < buffer_.size() && written < out.size(); ++start) out[written++] = buffer_[start];
  }

  void define() {
    color_[next_] = first_;
    before_[next_] = static_cast<uint16_t>(last_);
    if (next_ + 1 == 1u << length_ && length_ < kMostCodeLength) ++length_;
    ++next_;
  }

  uint32_t clear_, first_length_, next_ = 0, length_ = 0, last_ = 0;
  uint8_t first_ = 0;
  bool fresh_ = true;  // no code since the table was emptied
  std::array<uint8_t, kMostCodes> color_{};
  std::array<uint16_t, kMostCodes> before_{};
  std::array<uint8_t, kMostCodes + 2> buffer_{};
};

// The rows of a frame in the order of the file.
std::vector<int64_t> row_order(const GifFrame& frame) {
  std::vector<int64_t> order;
  const auto pass = [&](int64_t first, int64_t step) {
    for (int64_t y = first; y < frame.box.size.height; y += step) order.push_back(y);
  };
  if (!frame.interlaced) return pass(0, 1), order;
  pass(0, 8), pass(4, 8), pass(2, 4), pass(1, 2);
  return order;
}

// Indices of the whole canvas.
Result<std::vector<uint8_t>> canvas_indices(std::string_view bytes, const GifFrame& frame) {
  std::vector<uint8_t> found(static_cast<size_t>(frame.box.size.pixels()));
  GifCodes codes(bytes, frame.data);
  if (auto problem = GifStrings(frame.code_bits).read(codes, found)) return error("a damaged GIF file: {}", problem->message);
  std::vector<uint8_t> canvas(static_cast<size_t>(frame.canvas.pixels()), frame.transparent.value_or(0));
  const auto order = row_order(frame);
  for (size_t i = 0; i < order.size(); ++i)
    std::copy_n(found.begin() + static_cast<int64_t>(i) * frame.box.size.width, frame.box.size.width,
                canvas.begin() + (frame.box.top + order[i]) * frame.canvas.width + frame.box.left);
  return canvas;
}

}  // namespace

Result<Image> decode_gif(std::string_view bytes) {
  const auto frame = read_gif_frame(bytes);
  if (!frame) return Error{frame.error()};
  auto indices = canvas_indices(bytes, *frame);
  if (!indices) return Error{indices.error()};
  if (frame->palette.empty()) return Image{frame->canvas, 1, false, std::move(*indices)};
  return with_palette(frame->canvas, *indices, frame->palette);
}

}  // namespace hone::media
