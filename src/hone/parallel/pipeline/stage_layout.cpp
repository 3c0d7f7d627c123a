#include "hone/parallel/pipeline/stage_layout.h"

#include <algorithm>

#include "hone/base/error.h"

namespace hone::parallel {
namespace {

[[noreturn]] void refuse_stages(const std::string& what, const std::string& fix) { throw UserError(ExitCode::usage, what, fix); }

// Blocks of every stage where the ends say nothing themselves: all alike, an embedding or a loss being one of them.
std::vector<int64_t> even_stages(int64_t blocks, const PipelineRequest& request) {
  const int64_t counted = blocks + (request.count_embedding ? 1 : 0) + (request.count_loss ? 1 : 0), stages = request.stages;
  if (counted % stages != 0) {
    const int64_t share = blocks / stages + 1, last = blocks - share * (stages - 1);
    refuse_stages(fmt::format("{} blocks{} do not go evenly into {} pipeline stages", blocks,
                              counted > blocks ? fmt::format(" and {} more that count as one", counted - blocks) : "", stages),
                  last > 0 ? fmt::format("give the last stage fewer: `decoder_last_pipeline_num_layers` {}", last)
                           : fmt::format("take at most {} stages", blocks));
  }
  std::vector<int64_t> sizes(static_cast<size_t>(stages), counted / stages);
  sizes.front() -= request.count_embedding ? 1 : 0;
  sizes.back() -= request.count_loss ? 1 : 0;
  return sizes;
}

// Blocks of every stage where an end is given: the rest is dealt out evenly over the others.
std::vector<int64_t> stages_with_ends(int64_t blocks, const PipelineRequest& request) {
  const int64_t given = request.first_blocks.value_or(0) + request.last_blocks.value_or(0), rest = blocks - given;
  const int64_t others = request.stages - (request.first_blocks ? 1 : 0) - (request.last_blocks ? 1 : 0);
  if (rest < 0 || (others == 0 ? rest != 0 : rest % others != 0))
    refuse_stages(fmt::format("of {} blocks {} are left for {} pipeline stages, which do not divide them", blocks, rest, others),
                  "change `decoder_first_pipeline_num_layers` or `decoder_last_pipeline_num_layers`");
  std::vector<int64_t> sizes(static_cast<size_t>(request.stages), others > 0 ? rest / others : 0);
  if (request.first_blocks) sizes.front() = *request.first_blocks;
  if (request.last_blocks) sizes.back() = *request.last_blocks;
  return sizes;
}

}  // namespace

StageLayout::StageLayout(int64_t blocks, const PipelineRequest& request) : boundaries_{0} {
  const bool ends = request.first_blocks || request.last_blocks;
  if (ends && (request.count_embedding || request.count_loss))
    refuse_stages("sizes of the first or last pipeline stage, and the embedding or the loss counted as blocks",
                  "leave one of them out");
  for (int64_t size : ends ? stages_with_ends(blocks, request) : even_stages(blocks, request)) {
    if (size < 1)
      refuse_stages(fmt::format("a pipeline stage of {} blocks", size), "every stage needs a block: take fewer stages");
    boundaries_.push_back(boundaries_.back() + size);
  }
}

int StageLayout::stage_of(int64_t block) const {
  return static_cast<int>(std::ranges::upper_bound(boundaries_, block) - boundaries_.begin()) - 1;
}

std::string StageLayout::str() const {
  std::string text = "blocks";
  for (int stage = 0; stage < stages(); ++stage)
    text += fmt::format("{} {}-{}", stage > 0 ? "," : "", begin(stage), end(stage) - 1);
  return text;
}

}  // namespace hone::parallel
