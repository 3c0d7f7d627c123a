#include "hone/serve/chat/answer_parser.h"

#include <gtest/gtest.h>

#include <map>

namespace hone::serve {
namespace {

struct Split {
  std::string text, thought;
  std::vector<std::pair<std::string, std::string>> calls;
  std::string torn;
};

Split split(const std::string& whole, AnswerParser::Config config, size_t step) {
  AnswerParser parser(config);
  Split out;
  auto take = [&](const std::vector<Delta>& deltas) {
    for (const auto& delta : deltas) {
      if (delta.kind == Delta::Kind::text) out.text += delta.text;
      if (delta.kind == Delta::Kind::thought) out.thought += delta.text;
      if (delta.kind == Delta::Kind::call) out.calls.emplace_back(delta.text, "");
      if (delta.kind == Delta::Kind::arguments) out.calls.at(delta.call).second += delta.text;
    }
  };
  for (size_t at = 0; at < whole.size(); at += step) take(parser.push(std::string_view(whole).substr(at, step)));
  take(parser.finish());
  out.torn = parser.torn_call();
  EXPECT_EQ(parser.calls(), out.calls.size() - (out.torn.empty() ? 0 : 1));
  return out;
}

// However the text is cut into pieces, the parts are the same.
void expect(const std::string& whole, AnswerParser::Config config, const Split& wanted) {
  for (size_t step : {1, 2, 3, 7, 1000}) {
    auto got = split(whole, config, step);
    EXPECT_EQ(got.text, wanted.text) << "pieces of " << step;
    EXPECT_EQ(got.thought, wanted.thought) << "pieces of " << step;
    EXPECT_EQ(got.calls, wanted.calls) << "pieces of " << step;
    EXPECT_EQ(got.torn, wanted.torn) << "pieces of " << step;
  }
}

const AnswerParser::Config kHermes{.tools = ToolFormat::hermes}, kLlama{.tools = ToolFormat::llama, .offered = {"f", "g"}}, kPlain{};

TEST(AnswerParser, PlainTextStaysAsItIs) {
  expect("  Hello <b> world\n", kPlain, {"  Hello <b> world\n", "", {}});
  expect("a <tool_call> b", kPlain, {"a <tool_call> b", "", {}});
}

TEST(AnswerParser, ThoughtsComeFirstOrNotAtAll) {
  expect("<think>\nhm\n</think>\n\nYes", kPlain, {"Yes", "hm", {}});
  expect("<think>cut off", kPlain, {"", "cut off", {}});
  expect("no <think>x</think>", kPlain, {"no <think>x</think>", "", {}});
  expect("hm</think>\nYes", {.begins_thinking = true}, {"Yes", "hm", {}});
  expect("<think>a</think>b", {.split_thoughts = false}, {"<think>a</think>b", "", {}});
}

TEST(AnswerParser, HermesCalls) {
  std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}{\\\"\", \"b\": [1, {}]}}\n</tool_call>";
  expect(call, kHermes, {"", "", {{"f", "{\"a\": \"}{\\\"\", \"b\": [1, {}]}"}}});
  expect("Well.\n" + call + "\n" + call, kHermes,
         {"Well.", "", {{"f", "{\"a\": \"}{\\\"\", \"b\": [1, {}]}"}, {"f", "{\"a\": \"}{\\\"\", \"b\": [1, {}]}"}}});
  expect("<think>x</think>\n" + call, kHermes, {"", "x", {{"f", "{\"a\": \"}{\\\"\", \"b\": [1, {}]}"}}});
  expect("<tool_call>{\"arguments\": {\"x\": 1}, \"name\": \"late\"}</tool_call>", kHermes, {"", "", {{"late", "{\"x\": 1}"}}});
  expect("<tool_call>{\"name\": \"s\", \"arguments\": \"{\\\"x\\\": 1}\"}</tool_call>", kHermes, {"", "", {{"s", "{\"x\": 1}"}}});
}

TEST(AnswerParser, WhatIsNoCallIsText) {
  expect("<tool_call>not json</tool_call>", kHermes, {"<tool_call>not json</tool_call>", "", {}});
  expect("<tool_call>{\"nam", kHermes, {"<tool_call>{\"nam", "", {}});
  expect("{\"answer\": 42}", kLlama, {"{\"answer\": 42}", "", {}});
  expect("a < b", kHermes, {"a < b", "", {}});
}

TEST(AnswerParser, AnswersInJsonAreNoCallsOfLlama) {
  for (std::string answer : {R"({"name": "Bob", "age": 3})", R"({"name": "Bob"} is my answer)", R"({"name": "f"})", R"({"name": "f", "age": 3} x)",
                             R"({"name": "Bob", "parameters": {"a": 1}})", R"({"name": "f", "parameters": 7})"})
    expect(answer, kLlama, {answer, "", {}});
}

TEST(AnswerParser, CallsWithoutArgumentsHaveNone) {
  for (std::string arguments : {"", R"(, "arguments": {})", R"(, "arguments": null)", R"(, "arguments": "")"})
    expect("<tool_call>{\"name\": \"g\"" + arguments + "}</tool_call>", kHermes, {"", "", {{"g", "{}"}}});
  expect("<tool_call>{\"name\": \"g\", \"arguments\": [1]}</tool_call>", kHermes,
         {"<tool_call>{\"name\": \"g\", \"arguments\": [1]}</tool_call>", "", {}});
}

TEST(AnswerParser, TornCallsAreText) {
  for (std::string torn : {R"({"name": "f", "arg)", R"({"name": "f", "arguments": )", R"({"name": "f", "arguments": "{\")", R"({"name": "f")"}) {
    expect("<tool_call>" + torn, kHermes, {"<tool_call>" + torn, "", {}});
    expect(torn, kLlama, {torn, "", {}});
    expect(torn, {.tools = ToolFormat::only_call}, {torn, "", {}});
  }
  std::string late = R"({"name": "f", "arguments": {"a": )";
  expect("Well. <tool_call>" + late, kHermes, {"Well.", "", {{"f", "{\"a\": "}}, "<tool_call>" + late});
  expect(late, {.tools = ToolFormat::only_call}, {"", "", {{"f", "{\"a\": "}}, late});
}

TEST(AnswerParser, LlamaCalls) {
  expect("{\"name\": \"f\", \"parameters\": {\"a\": 1}}", kLlama, {"", "", {{"f", "{\"a\": 1}"}}});
  expect("<|python_tag|>{\"name\": \"f\", \"parameters\": {\"a\": 1}}; {\"name\": \"g\", \"parameters\": {}}", kLlama,
         {"", "", {{"f", "{\"a\": 1}"}, {"g", "{}"}}});
}

TEST(AnswerParser, OneCallOnly) {
  std::string call = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  expect(call + call, {.tools = ToolFormat::hermes, .one_call = true}, {"", "", {{"f", "{}"}}});
  expect("{\"name\": \"f\", \"arguments\": {\"a\": 1}}", {.tools = ToolFormat::only_call}, {"", "", {{"f", "{\"a\": 1}"}}});
}

}  // namespace
}  // namespace hone::serve
