#include "hone/train/rl/turns/tool_calls.h"

#include <gtest/gtest.h>

namespace hone::train::rl {
namespace {

TEST(ToolCalls, HermesCallsAreReadInOrder) {
  const auto calls = hermes_calls(
      "Let me see.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>\n"
      "<tool_call>{\"name\": \"sub\", \"arguments\": \"{\\\"b\\\": 2}\"}</tool_call> done");
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].request.name, "add");
  EXPECT_EQ(calls[0].request.arguments, (Json{{"a", 1}}));
  EXPECT_EQ(calls[1].request.arguments, (Json{{"b", 2}}));
}

TEST(ToolCalls, WhatIsNoCallSaysWhy) {
  for (const auto* text : {"<tool_call>nonsense</tool_call>", "<tool_call>", "<tool_call>{\"name\": 3}</tool_call>",
                           "<tool_call>{\"name\": \"a\", \"arguments\": [1]}</tool_call>", "<tool_call>[[[[</tool_call>"}) {
    const auto calls = hermes_calls(text);
    ASSERT_EQ(calls.size(), 1u) << text;
    EXPECT_FALSE(calls[0].malformed.empty()) << text;
  }
  EXPECT_TRUE(hermes_calls("no call").empty());
  EXPECT_TRUE(hermes_calls("").empty());
}

TEST(ToolCalls, AnAnswerCallsSoManyToolsAndNoMore) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "<tool_call>{\"name\": \"a\", \"arguments\": {}}</tool_call>";
  EXPECT_EQ(hermes_calls(text).size(), kMostCalls);
}

TEST(ToolCalls, TheLastActionOfReactCounts) {
  const auto calls = react_calls(
      "Thought: x\nAction: first\nAction Input: {}\nObservation: 1\nThought: y\nAction: second \nAction Input: {\"a\": "
      "1}\nObservation:");
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].request.name, "second");
  EXPECT_EQ(calls[0].request.arguments, (Json{{"a", 1}}));
  EXPECT_TRUE(react_calls("Action: a\nAction Input: {}\nObservation: 1\nFinal Answer: 2").empty());
  EXPECT_TRUE(react_calls("Action Input: {}").empty());
  EXPECT_TRUE(react_calls("Action: a").empty());
  EXPECT_FALSE(react_calls("Action: a\nAction Input: 5")[0].malformed.empty());
}

}  // namespace
}  // namespace hone::train::rl
