#include "hone/engine/data_parallel/request_router.h"

#include <gtest/gtest.h>

namespace hone::engine {
namespace {

Request prompt_of(size_t tokens, uint64_t group = 0) {
  Request request;
  request.prompt.resize(tokens, 1);
  request.group = group;
  return request;
}

size_t route(RequestRouter& router, RequestId id, const Request& request) {
  const auto replica = router.replica_for(request);
  router.add(id, request, replica);
  return replica;
}

RequestOutput finished(RequestId id) { return {.id = id, .finish = FinishReason::stop}; }

TEST(RequestRouter, PicksTheReplicaWithTheFewestSequencesThenPromptTokens) {
  RequestRouter router(3, 8);
  EXPECT_EQ(route(router, 1, prompt_of(9)), 0U);
  EXPECT_EQ(route(router, 2, prompt_of(5)), 1U);
  EXPECT_EQ(route(router, 3, prompt_of(7)), 2U);
  EXPECT_EQ(route(router, 4, prompt_of(1)), 1U) << "one sequence each: the shortest prompt";
  router.finish(finished(1));
  EXPECT_EQ(router.replica_for(prompt_of(1)), 0U);
}

TEST(RequestRouter, BeamsAreSequencesAndEveryAnswerMustFinish) {
  RequestRouter router(2, 8);
  auto request = prompt_of(4);
  request.sampling.num_beams = 3;
  request.sampling.num_return_sequences = 2;
  EXPECT_EQ(route(router, 1, request), 0U);
  for (RequestId id = 2; id < 5; ++id) EXPECT_EQ(route(router, id, prompt_of(1)), 1U);
  router.finish({.id = 1});  // not a final output
  router.finish(finished(1));
  ASSERT_NE(router.find(1), nullptr);
  router.finish(finished(1));
  EXPECT_EQ(router.find(1), nullptr);
  EXPECT_EQ(router.replica_for(prompt_of(1)), 0U);
}

TEST(RequestRouter, GroupsStayTogetherUntilTheirReplicaIsABatchAhead) {
  RequestRouter router(2, 2);
  for (RequestId id = 1; id < 4; ++id) EXPECT_EQ(route(router, id, prompt_of(4, 7)), 0U) << id;
  EXPECT_EQ(route(router, 4, prompt_of(4, 7)), 1U) << "three sequences here, none there, and a batch is two";
  for (RequestId id = 1; id < 5; ++id) router.finish(finished(id));
  route(router, 5, prompt_of(4));
  EXPECT_EQ(router.replica_for(prompt_of(4, 7)), 1U) << "nothing of the group is left";
}

TEST(RequestRouter, AReplicaThatKeepsFailingGetsNoMoreRequests) {
  RequestRouter router(2, 8);
  route(router, 1, prompt_of(4, 7));
  for (int i = 0; i < RequestRouter::kMaxFailures; ++i) {
    EXPECT_TRUE(router.works(0));
    router.count_failure(0);
  }
  EXPECT_FALSE(router.works(0));
  EXPECT_EQ(router.replica_for(prompt_of(1)), 1U);
  EXPECT_EQ(router.replica_for(prompt_of(1, 7)), 1U);
  router.count_success(0);
  EXPECT_EQ(router.replica_for(prompt_of(1, 7)), 0U);
}

TEST(RequestRouter, KnowsTheAdaptersInUse) {
  RequestRouter router(1, 8);
  auto request = prompt_of(2);
  request.adapter = "french";
  route(router, 1, request);
  EXPECT_TRUE(router.uses_adapter("french"));
  router.finish(finished(1));
  EXPECT_FALSE(router.uses_adapter("french"));
  EXPECT_TRUE(router.live().empty());
}

}  // namespace
}  // namespace hone::engine
