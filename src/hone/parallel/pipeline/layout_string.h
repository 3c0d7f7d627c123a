// Megatron's pipeline_model_parallel_layout: "Et*3|(tttt|)*2tL" is three blocks after the embedding, two stages of four, and one
// block before the loss.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace hone::parallel {

// The number of blocks of every stage. Throws UserError(usage).
std::vector<int64_t> parse_pipeline_layout(std::string_view text);

}  // namespace hone::parallel
