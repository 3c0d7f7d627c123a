// Which blocks each stage of a pipeline has. A rank may have several stages (virtual stages of Megatron's interleaved schedule):
// stage s is on rank s % ranks.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hone::parallel {

struct PipelineRequest {
  int stages = 1;                                    // ranks
  int chunks = 1;                                    // virtual stages of each rank
  int64_t blocks_per_chunk = 0;                      // above 0: the number of chunks follows
  std::optional<int64_t> first_blocks, last_blocks;  // of the first and the last rank; unset: as many as the others
  bool count_embedding = false, count_loss = false;  // as one block each, so that the ends get fewer
  std::vector<int64_t> blocks_of_stages = {};        // of all stages in order, instead of the other fields; empty: by those

  bool is_interleaved() const { return chunks > 1 || blocks_per_chunk > 0; }
};

// Stage i has the blocks [boundaries[i], boundaries[i + 1]). Throws UserError(usage) that names what would divide.
class StageLayout {
 public:
  StageLayout(int64_t blocks, const PipelineRequest& request);
  // For models that do not train: stages differ by one block at most.
  static StageLayout balanced(int64_t blocks, int ranks);

  int ranks() const { return ranks_; }
  int chunks() const { return stages() / ranks_; }
  int stages() const { return static_cast<int>(boundaries_.size()) - 1; }
  int rank_of(int stage) const { return stage % ranks_; }
  int64_t begin(int stage) const { return boundaries_[static_cast<size_t>(stage)]; }
  int64_t end(int stage) const { return boundaries_[static_cast<size_t>(stage) + 1]; }
  int stage_of(int64_t block) const;
  std::string str() const;  // "blocks 0-6, 7-14, 15-21", of the stages in order

 private:
  StageLayout(const std::vector<int64_t>& sizes, int ranks);

  int ranks_;
  std::vector<int64_t> boundaries_{0};
};

}  // namespace hone::parallel
