// What pictures add to a batch: rows of patches, and positions of three axes.
#pragma once
#include <array>

#include "hone/data/batches/batch.h"
#include "hone/data/batches/collator.h"

namespace hone::data {

// Positions of a packed row under M-RoPE: a text advances all three axes, a picture has one time, a video's pairs of
// frames at theirs, and spreads over height and width; what follows begins as VideoPositions says.
class PositionAxes {
 public:
  void append(const Sample& sample, int64_t first);
  int64_t next() const { return next_; }  // where a sequence would go on
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

// A prompt with its media as a batch of one. A medium that cannot be decoded is an error.
Result<Batch> prompt_batch(std::vector<text::TokenId> ids, std::vector<Picture> pictures, std::vector<Sound> sounds = {});
// The same for a sample that a run has begun with: such a medium becomes zeros, and a warning names it.
Batch prompt_batch_of(Sample sample);
// What becomes of a sample one of whose media cannot be decoded, with a warning.
void forget_labels(Sample& sample, const std::string& why);

bool has_pictures(std::span<const SamplePack> packs);
// Decodes the pictures of all samples. One that cannot be decoded becomes zeros, its sample is not learned, and a warning names
// it.
BatchImages load_images(std::vector<SamplePack>& packs);

}  // namespace hone::data
