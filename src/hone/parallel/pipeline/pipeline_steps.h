// The order in which a rank of a pipeline takes the micro-batches of a step: one forward, one backward (1F1B), interleaved where
// ranks have several stages, as in Megatron.
#pragma once
#include <cstddef>
#include <vector>

namespace hone::parallel {

struct PipelineStep {
  bool is_forward;
  int chunk;  // which of the rank's stages
  size_t micro_batch;

  bool operator==(const PipelineStep&) const = default;
};

std::vector<PipelineStep> pipeline_steps(int rank, int ranks, int chunks, size_t micro_batches);

}  // namespace hone::parallel
