// Requests under constraints, in company: what one of them cannot have ends that one alone.
#include "engine/constraint_fixture.h"
#include "engine/engine_fixture.h"

namespace hone::engine {
namespace {

class ConstraintRequests : public EngineTest {
 protected:
  static Request asking(std::shared_ptr<const Constraint> constraint) {
    auto request = requests(20, 1)[0];
    request.sampling.constraint = std::move(constraint);
    request.sampling.eos_token_ids = {kEnd};
    return request;
  }
};

TEST_F(ConstraintRequests, TheShapeGoesBeforeTheLeastLength) {
  auto request = asking(regex("a|bc"));
  request.sampling.min_tokens = 10;
  for (double temperature : {0.0, 1.0}) {
    request.sampling.temperature = temperature;
    request.sampling.top_k = 5;
    auto engine = this->engine();
    auto answer = generate(engine, {request})[0];
    EXPECT_EQ(answer.finish, FinishReason::stop) << answer.error;
    EXPECT_TRUE(answer.text == "a" || answer.text == "bc") << answer.text;
  }
}

TEST_F(ConstraintRequests, WhatCannotGoOnEndsAlone) {
  auto impossible = asking(regex("a"));
  impossible.sampling.bad_words = {{'a'}};
  auto other = requests(20, 2)[1];
  for (double temperature : {0.0, 1.0}) {
    impossible.sampling.temperature = temperature;
    impossible.sampling.top_p = 0.5;
    auto engine = this->engine();
    auto found = generate(engine, {impossible, other});
    EXPECT_EQ(found[0].finish, FinishReason::error);
    EXPECT_NE(found[0].error.find("no token can be sampled"), std::string::npos);
    EXPECT_EQ(found[1].tokens, expected(other));
    EXPECT_EQ(engine.stats().blocks_used, 0);
  }
}

TEST_F(ConstraintRequests, BeamsThatCannotGoOnSayWhy) {
  auto impossible = asking(regex("xy"));
  impossible.sampling.bad_words = {{'y'}};
  impossible.sampling.num_beams = 3;
  auto engine = this->engine();
  auto found = generate(engine, {impossible, requests(20, 2)[1]});
  EXPECT_EQ(found[0].finish, FinishReason::error);
  EXPECT_NE(found[0].error.find("no token can be sampled"), std::string::npos);
  EXPECT_EQ(found[1].finish, FinishReason::length);
}

TEST_F(ConstraintRequests, AShapeThatGrowsTooLargeEndsAlone) {
  ConstraintCompiler tight(*tokenizer_, {kEnd}, {.state_bytes = 20'000});
  auto growing = asking(tight.regex("[ab]*a[ab]{500}").or_throw(ExitCode::failure, "regex"));
  growing.sampling.max_tokens = 150;
  growing.sampling.temperature = 1;
  for (int64_t beams : {1, 2}) {
    growing.sampling.num_beams = beams;
    auto engine = this->engine();
    auto found = generate(engine, {growing, requests(20, 2)[1]});
    EXPECT_EQ(found[0].finish, FinishReason::error) << beams;
    EXPECT_EQ(found[1].finish, FinishReason::length);
  }
}

}  // namespace
}  // namespace hone::engine
