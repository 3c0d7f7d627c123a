// Reuses a thread's image buffers: malloc would return them to the system, and every page of the next image would be a page fault
// and be zeroed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hone::media {

// Uninitialized bytes, which the caller overwrites.
std::vector<uint8_t> take_pixels(size_t size);
void recycle_pixels(std::vector<uint8_t> pixels);

// A buffer held for the lifetime of this object.
class ScratchPixels {
 public:
  explicit ScratchPixels(size_t size) : pixels_(take_pixels(size)) {}
  ScratchPixels(const ScratchPixels&) = delete;
  ScratchPixels& operator=(const ScratchPixels&) = delete;
  ~ScratchPixels() { recycle_pixels(std::move(pixels_)); }
  uint8_t* data() { return pixels_.data(); }

 private:
  std::vector<uint8_t> pixels_;
};

}  // namespace hone::media
