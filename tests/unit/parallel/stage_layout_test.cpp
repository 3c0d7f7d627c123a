#include "hone/parallel/pipeline/stage_layout.h"

#include <gtest/gtest.h>

#include "hone/base/error.h"
#include "hone/parallel/pipeline/layout_string.h"

namespace hone::parallel {
namespace {

std::string layout(int64_t blocks, const PipelineRequest& request) { return StageLayout(blocks, request).str(); }

TEST(StageLayout, BlocksGoEvenlyOrAsTheEndsSay) {
  EXPECT_EQ(layout(4, {.stages = 2}), "blocks 0-1, 2-3");
  EXPECT_EQ(layout(6, {.stages = 3, .first_blocks = 1, .last_blocks = 3}), "blocks 0-0, 1-2, 3-5");
  EXPECT_EQ(layout(7, {.stages = 3, .last_blocks = 1}), "blocks 0-2, 3-5, 6-6");
  EXPECT_EQ(layout(6, {.stages = 4, .count_embedding = true, .count_loss = true}), "blocks 0-0, 1-2, 3-4, 5-5");
  EXPECT_EQ(StageLayout(6, {.stages = 3}).stage_of(4), 2);
}

TEST(StageLayout, RanksMayHaveSeveralStages) {
  EXPECT_EQ(layout(8, {.stages = 2, .chunks = 2}), "blocks 0-1, 2-3, 4-5, 6-7, of which each rank has 2");
  EXPECT_EQ(layout(8, {.stages = 2, .blocks_per_chunk = 2}), layout(8, {.stages = 2, .chunks = 2}));
  EXPECT_EQ(layout(8, {.stages = 2, .chunks = 2, .first_blocks = 2}), "blocks 0-0, 1-3, 4-4, 5-7, of which each rank has 2");
  EXPECT_EQ(layout(7, {.stages = 2, .chunks = 2, .count_loss = true}), "blocks 0-1, 2-3, 4-5, 6-6, of which each rank has 2");
  const StageLayout made(8, {.stages = 2, .chunks = 2});
  EXPECT_EQ(made.rank_of(made.stage_of(5)), 0);
  EXPECT_EQ(made.rank_of(made.stage_of(7)), 1);
  EXPECT_EQ(StageLayout::balanced(7, 3).str(), "blocks 0-1, 2-3, 4-6");
}

TEST(StageLayout, ReadsMegatronsString) {
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(parse_pipeline_layout("Et*3|(tttt|)*2tL"), (Sizes{3, 4, 4, 1}));
  EXPECT_EQ(parse_pipeline_layout("E,t|t t,L"), (Sizes{1, 2}));
  EXPECT_EQ(parse_pipeline_layout("EttL"), (Sizes{2}));
  EXPECT_EQ(layout(6, {.stages = 2, .blocks_of_stages = {1, 2, 2, 1}}), "blocks 0-0, 1-2, 3-4, 5-5, of which each rank has 2");
  for (const char* wrong : {"", "ttL", "Ett", "EtEL", "EtmL", "Et*0L", "Et*L", "E(tL", "Et)L", "E((t))L", "ExL", "Et*99999999L",
                            "E(t*90000)*90000L", "E|", "EL*18446744073709551616"})
    EXPECT_THROW(parse_pipeline_layout(wrong), UserError) << wrong;
}

TEST(StageLayout, SaysWhatWouldDivide) {
  auto fix = [](int64_t blocks, const PipelineRequest& request) {
    try {
      StageLayout made(blocks, request);
    } catch (const UserError& error) {
      return error.what() + (": " + error.hint());
    }
    return std::string("nothing is wrong");
  };
  EXPECT_NE(fix(7, {.stages = 3}).find("`decoder_last_pipeline_num_layers` 1"), std::string::npos);
  EXPECT_NE(fix(7, {.stages = 3, .first_blocks = 2}).find("5 are left for 2 pipeline stages"), std::string::npos);
  EXPECT_NE(fix(4, {.stages = 2, .last_blocks = 4}).find("a pipeline stage of 0 blocks"), std::string::npos);
  EXPECT_NE(fix(2, {.stages = 3}).find("take at most 2 stages"), std::string::npos);
  EXPECT_NE(fix(6, {.stages = 2, .chunks = 2}).find("`virtual_pipeline_parallel_size` 2"), std::string::npos);
  EXPECT_NE(fix(8, {.stages = 2, .chunks = 2, .first_blocks = 3}).find("3 blocks of a pipeline rank"), std::string::npos);
  EXPECT_NE(fix(8, {.stages = 2, .blocks_per_chunk = 3}).find("must divide them"), std::string::npos);
  EXPECT_NE(fix(4, {.stages = 2, .first_blocks = 1, .count_loss = true}).find("leave one of them out"), std::string::npos);
  EXPECT_NE(fix(4, {.stages = 2, .blocks_of_stages = {2, 1}}).find("has 3 blocks, and the model 4"), std::string::npos);
  EXPECT_NE(fix(4, {.stages = 2, .blocks_of_stages = {2, 1, 1}}).find("has 3 stages, and there are 2"), std::string::npos);
  EXPECT_NE(fix(4, {.stages = 2, .blocks_of_stages = {4, 0}}).find("a pipeline stage of 0 blocks"), std::string::npos);
}

}  // namespace
}  // namespace hone::parallel
