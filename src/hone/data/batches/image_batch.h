// Images in a batch: rows of patches, and three-axis positions.
#pragma once
#include <array>
#include <functional>
#include <optional>

#include "hone/data/batches/batch.h"
#include "hone/data/batches/collator.h"

namespace hone::data {

// M-RoPE positions of a packed row: text advances all three axes; an image has one time and spreads over height and width; the
// frame pairs of a video have their own times; the text after it starts as VideoPositions defines.
class PositionAxes {
 public:
  void append(const Sample& sample, int64_t first);
  int64_t next() const { return next_; }  // where a sequence would continue
  Tensor tensor() const;                  // int64 [T], or [3, T] where there are pictures of a model with M-RoPE

 private:
  void add(int64_t time, int64_t y, int64_t x);
  void add_text(size_t count);
  void add_picture(const Picture& picture);
  void add_mixed(const Picture& video);  // and its sound, with the marks around them

  std::array<std::vector<int64_t>, 3> axes_;
  int64_t next_ = 0;
  bool has_axes_ = false;
};

// How the media of a prompt are decoded.
struct PromptDecoding {
  std::function<std::optional<Error>(std::span<const Picture>, std::span<float>)> fill = fill_patch_rows;
  std::function<bool()> is_cancelled = [] { return false; };  // called before each medium; true leaves the others undecoded
};

// A prompt with its media as a batch of one. A medium that cannot be decoded is an error, as is cancelling.
Result<Batch> prompt_batch(std::vector<text::TokenId> ids, std::vector<Picture> pictures, std::vector<Sound> sounds = {},
                           const PromptDecoding& decoding = {});
// The same for a sample of a running training: such a medium becomes zeros, and a warning names it.
Batch prompt_batch_of(Sample sample, const PromptDecoding& decoding = {});
// Handles a sample with a medium that cannot be decoded, with a warning.
void forget_labels(Sample& sample, const std::string& why);

bool has_pictures(std::span<const SamplePack> packs);
// Decodes the images of all samples. One that cannot be decoded becomes zeros, its sample is masked, and a warning names
// it.
BatchImages load_images(std::vector<SamplePack>& packs);

}  // namespace hone::data
