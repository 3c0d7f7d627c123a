#include "hone/parallel/pipeline/stage_layout.h"

#include <algorithm>
#include <numeric>

#include "hone/base/error.h"

namespace hone::parallel {
namespace {

[[noreturn]] void refuse_stages(const std::string& what, const std::string& fix) { throw UserError(ExitCode::usage, what, fix); }

// Blocks of every stage if no explicit counts are given: equal shares, an embedding or a loss counting as one block.
std::vector<int64_t> even_stages(int64_t blocks, const PipelineRequest& request) {
  const int64_t counted = blocks + (request.count_embedding ? 1 : 0) + (request.count_loss ? 1 : 0);
  const int64_t ranks = request.stages, stages = ranks * request.chunks;
  if (counted % stages != 0) {
    const int64_t share = blocks / ranks + 1, last = blocks - share * (ranks - 1);
    refuse_stages(fmt::format("{} blocks{} do not go evenly into {} pipeline stages", blocks,
                              counted > blocks ? fmt::format(" and {} more that count as one", counted - blocks) : "", stages),
                  request.chunks > 1 ? fmt::format("with `virtual_pipeline_parallel_size` {} every rank has that many stages: "
                                                   "choose a number that divides the blocks, or leave it out",
                                                   request.chunks)
                  : last > 0         ? fmt::format("give the last stage fewer: `decoder_last_pipeline_num_layers` {}", last)
                                     : fmt::format("take at most {} stages, a number that divides {}", blocks, counted));
  }
  std::vector<int64_t> sizes(static_cast<size_t>(stages), counted / stages);
  sizes.front() -= request.count_embedding ? 1 : 0;
  sizes.back() -= request.count_loss ? 1 : 0;
  return sizes;
}

// Blocks of every stage if the first or last count is given: the rest is distributed evenly over the other ranks, and a rank's
// share over its chunks.
std::vector<int64_t> stages_with_ends(int64_t blocks, const PipelineRequest& request) {
  const int64_t given = request.first_blocks.value_or(0) + request.last_blocks.value_or(0), rest = blocks - given;
  const int64_t others = request.stages - (request.first_blocks ? 1 : 0) - (request.last_blocks ? 1 : 0);
  if (rest < 0)
    refuse_stages(fmt::format("the first and the last pipeline stage get {} blocks, and the model has {}", given, blocks),
                  "lower `decoder_first_pipeline_num_layers` or `decoder_last_pipeline_num_layers`");
  if (others == 0 ? rest != 0 : rest % others != 0)
    refuse_stages(fmt::format("of {} blocks {} are left for {} pipeline stages, which do not divide them", blocks, rest, others),
                  "change `decoder_first_pipeline_num_layers` or `decoder_last_pipeline_num_layers`");
  std::vector<int64_t> of_rank(static_cast<size_t>(request.stages), others > 0 ? rest / others : 0);
  if (request.first_blocks) of_rank.front() = *request.first_blocks;
  if (request.last_blocks) of_rank.back() = *request.last_blocks;
  std::vector<int64_t> sizes;
  for (int chunk = 0; chunk < request.chunks; ++chunk)
    for (int64_t blocks_here : of_rank) {
      if (blocks_here % request.chunks != 0)
        refuse_stages(
            fmt::format("{} blocks of a pipeline rank do not go evenly into {} virtual stages", blocks_here, request.chunks),
            "change `virtual_pipeline_parallel_size`, or the blocks of the first or the last rank");
      sizes.push_back(blocks_here / request.chunks);
    }
  return sizes;
}

// Megatron's alternative option for the number of chunks per rank.
PipelineRequest with_chunks(int64_t blocks, PipelineRequest request) {
  if (request.blocks_per_chunk <= 0) return request;
  const int64_t of_one_chunk = request.blocks_per_chunk * request.stages;
  if (request.chunks > 1 || blocks % of_one_chunk != 0)
    refuse_stages(fmt::format("{} blocks on {} pipeline ranks in chunks of {}", blocks, request.stages, request.blocks_per_chunk),
                  request.chunks > 1 ? "leave `num_layers_per_virtual_pipeline_stage` or `virtual_pipeline_parallel_size` out"
                                     : "`num_layers_per_virtual_pipeline_stage` times the ranks must divide them");
  request.chunks = static_cast<int>(blocks / of_one_chunk);
  return request;
}

// Blocks of every stage if all of them are given.
std::vector<int64_t> given_stages(int64_t blocks, const PipelineRequest& request) {
  const auto& sizes = request.blocks_of_stages;
  const auto given = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  const auto stages = static_cast<int64_t>(sizes.size()), ranks = static_cast<int64_t>(request.stages);
  if (request.first_blocks || request.last_blocks || request.count_embedding || request.count_loss ||
      request.blocks_per_chunk > 0)
    refuse_stages("`pipeline_model_parallel_layout`, and another option for the blocks of pipeline stages",
                  "leave one of them out");
  if (stages % ranks != 0)
    refuse_stages(fmt::format("`pipeline_model_parallel_layout` has {} stages, and there are {} pipeline ranks", stages, ranks),
                  fmt::format("write a multiple of {} stages, with | between them", ranks));
  if (given != blocks)
    refuse_stages(fmt::format("`pipeline_model_parallel_layout` has {} blocks, and the model {}", given, blocks),
                  "write one t for each block");
  return sizes;
}

std::vector<int64_t> sizes_of(int64_t blocks, const PipelineRequest& asked) {
  if (!asked.blocks_of_stages.empty()) return given_stages(blocks, asked);
  const auto request = with_chunks(blocks, asked);
  const bool ends = request.first_blocks || request.last_blocks;
  if (ends && (request.count_embedding || request.count_loss))
    refuse_stages("sizes of the first or last pipeline stage, and the embedding or the loss counted as blocks",
                  "leave one of them out");
  return ends ? stages_with_ends(blocks, request) : even_stages(blocks, request);
}

std::vector<int64_t> balanced_sizes(int64_t blocks, int ranks) {
  std::vector<int64_t> sizes;
  for (int64_t rank = 0; rank < ranks; ++rank) sizes.push_back((rank + 1) * blocks / ranks - rank * blocks / ranks);
  return sizes;
}

}  // namespace

StageLayout::StageLayout(const std::vector<int64_t>& sizes, int ranks) : ranks_(ranks) {
  for (int64_t size : sizes) {
    if (size < 1)
      refuse_stages(fmt::format("a pipeline stage of {} blocks", size), "every stage needs a block: take fewer stages");
    boundaries_.push_back(boundaries_.back() + size);
  }
}

StageLayout::StageLayout(int64_t blocks, const PipelineRequest& request)
    : StageLayout(sizes_of(blocks, request), request.stages) {}

StageLayout StageLayout::balanced(int64_t blocks, int ranks) { return {balanced_sizes(blocks, ranks), ranks}; }

int StageLayout::stage_of(int64_t block) const {
  return static_cast<int>(std::ranges::upper_bound(boundaries_, block) - boundaries_.begin()) - 1;
}

std::string StageLayout::str() const {
  std::string text = "blocks";
  for (int stage = 0; stage < stages(); ++stage)
    text += fmt::format("{} {}-{}", stage > 0 ? "," : "", begin(stage), end(stage) - 1);
  if (chunks() > 1) text += fmt::format(", of which each rank has {}", chunks());
  return text;
}

}  // namespace hone::parallel
