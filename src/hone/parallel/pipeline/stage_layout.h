// Which blocks each stage of a pipeline has.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hone::parallel {

struct PipelineRequest {
  int stages = 1;
  std::optional<int64_t> first_blocks, last_blocks;  // of the first and the last stage; unset: as many as the others
  bool count_embedding = false, count_loss = false;  // as one block each, so that the ends get fewer
};

// Stage i has the blocks [boundaries[i], boundaries[i + 1]). Throws UserError(usage) that names what would divide.
class StageLayout {
 public:
  StageLayout(int64_t blocks, const PipelineRequest& request);

  int stages() const { return static_cast<int>(boundaries_.size()) - 1; }
  int64_t begin(int stage) const { return boundaries_[static_cast<size_t>(stage)]; }
  int64_t end(int stage) const { return boundaries_[static_cast<size_t>(stage) + 1]; }
  int stage_of(int64_t block) const;
  std::string str() const;  // "blocks 0-6, 7-14, 15-21"

 private:
  std::vector<int64_t> boundaries_;
};

}  // namespace hone::parallel
