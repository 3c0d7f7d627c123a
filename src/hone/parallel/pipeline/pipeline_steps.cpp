#include "hone/parallel/pipeline/pipeline_steps.h"

#include <algorithm>

namespace hone::parallel {

// With several chunks, a group of as many micro-batches as ranks passes through one chunk, then through the next: by then the
// first of them has come around. Groups are full in this order; micro-batches that a step lacks are skipped, which delays no
// other rank.
std::vector<PipelineStep> pipeline_steps(int rank, int ranks, int chunks, size_t micro_batches) {
  const auto p = static_cast<size_t>(ranks), v = static_cast<size_t>(chunks), behind = p - 1 - static_cast<size_t>(rank);
  const size_t passes = v == 1 ? micro_batches : (micro_batches + p - 1) / p * p * v;
  const size_t warm_up = std::min(v == 1 ? behind : 2 * behind + (v - 1) * p, passes);
  std::vector<PipelineStep> steps;
  auto add = [&](size_t k, bool is_forward) {
    const size_t chunk = v == 1 ? 0 : k % (p * v) / p, micro_batch = v == 1 ? k : k / (p * v) * p + k % p;
    if (micro_batch < micro_batches)
      steps.push_back({is_forward, static_cast<int>(is_forward ? chunk : v - 1 - chunk), micro_batch});
  };
  for (size_t k = 0; k < warm_up; ++k) add(k, true);
  for (size_t k = 0; k < passes; ++k) {
    if (k + warm_up < passes) add(k + warm_up, true);
    add(k, false);
  }
  return steps;
}

}  // namespace hone::parallel
