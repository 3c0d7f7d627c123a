// Memory of pictures that a thread is done with, for its next ones: malloc would give it back to the system, and every page of
// the next picture would be a fault and a page of zeros.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hone::media {

// So many bytes of any content, which the caller overwrites.
std::vector<uint8_t> take_pixels(size_t size);
void recycle_pixels(std::vector<uint8_t> pixels);

// Taken for as long as it lives.
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
