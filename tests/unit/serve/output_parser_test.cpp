#include "hone/serve/chat/output_parser.h"

#include <gtest/gtest.h>

#include <map>

namespace hone::serve {
namespace {

struct Split {
  std::string text, thought;
  std::vector<std::pair<std::string, std::string>> calls;
  std::string torn;
};

Split split(const std::string& whole, OutputParser::Config config, size_t step) {
  OutputParser parser(config);
  Split out;
  auto take = [&](const std::vector<Delta>& deltas) {
    for (const auto& delta : deltas) {
      if (delta.kind == Delta::Kind::text) out.text += delta.text;
      if (delta.kind == Delta::Kind::reasoning) out.thought += delta.text;
      if (delta.kind == Delta::Kind::call) out.calls.emplace_back(delta.text, "");
      if (delta.kind == Delta::Kind::arguments) out.calls.at(delta.call).second += delta.text;
    }
  };
  for (size_t at = 0; at < whole.size(); at += step) take(parser.push(std::string_view(whole).substr(at, step)));
  take(parser.finish());
  out.torn = parser.incomplete_call();
  EXPECT_EQ(parser.calls(), out.calls.size() - (out.torn.empty() ? 0 : 1));
  return out;
}

// However the text is cut into pieces, the parts are the same.
void expect(const std::string& whole, OutputParser::Config config, const Split& wanted) {
  for (size_t step : {1, 2, 3, 7, 1000}) {
    auto got = split(whole, config, step);
    EXPECT_EQ(got.text, wanted.text) << "pieces of " << step;
    EXPECT_EQ(got.thought, wanted.thought) << "pieces of " << step;
    EXPECT_EQ(got.calls, wanted.calls) << "pieces of " << step;
    EXPECT_EQ(got.torn, wanted.torn) << "pieces of " << step;
  }
}

const auto kOffered = std::make_shared<const ToolSchemas>(ToolSchemas{
    {"f", *parse_json(R"({"properties": {"a": {"type": "string"}, "n": {"type": "integer"}, "on": {"type": "boolean"}}})")},
    {"g", Json()}});

OutputParser::Config form(std::string_view name) { return {.calls = find_call_syntax(name), .offered = kOffered}; }
OutputParser::Config forced(std::string_view name) {
  return {.calls = find_call_syntax(name), .separate_reasoning = false, .in_call = true, .offered = kOffered};
}

const OutputParser::Config kHermes = form("hermes"), kLlama = form("llama3"), kPlain{};

TEST(OutputParser, PlainTextStaysAsItIs) {
  expect("  Hello <b> world\n", kPlain, {"  Hello <b> world\n", "", {}});
  expect("a <tool_call> b", kPlain, {"a <tool_call> b", "", {}});
}

TEST(OutputParser, ThoughtsComeFirstOrNotAtAll) {
  expect("<think>\nhm\n</think>\n\nYes", kPlain, {"Yes", "hm", {}});
  expect("<think>cut off", kPlain, {"", "cut off", {}});
  expect("no <think>x</think>", kPlain, {"no <think>x</think>", "", {}});
  expect("hm</think>\nYes", {.begins_thinking = true}, {"Yes", "hm", {}});
  expect("<think>a</think>b", {.separate_reasoning = false}, {"<think>a</think>b", "", {}});
}

TEST(OutputParser, HermesCalls) {
  std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}{\\\"\", \"b\": [1, {}]}}\n</tool_call>";
  expect(call, kHermes, {"", "", {{"f", "{\"a\": \"}{\\\"\", \"b\": [1, {}]}"}}});
  expect("Well.\n" + call + "\n" + call, kHermes,
         {"Well.", "", {{"f", "{\"a\": \"}{\\\"\", \"b\": [1, {}]}"}, {"f", "{\"a\": \"}{\\\"\", \"b\": [1, {}]}"}}});
  expect("<think>x</think>\n" + call, kHermes, {"", "x", {{"f", "{\"a\": \"}{\\\"\", \"b\": [1, {}]}"}}});
  expect("<tool_call>{\"arguments\": {\"x\": 1}, \"name\": \"late\"}</tool_call>", kHermes, {"", "", {{"late", "{\"x\": 1}"}}});
  expect("<tool_call>{\"name\": \"s\", \"arguments\": \"{\\\"x\\\": 1}\"}</tool_call>", kHermes, {"", "", {{"s", "{\"x\": 1}"}}});
}

TEST(OutputParser, WhatIsNoCallIsText) {
  expect("<tool_call>not json</tool_call>", kHermes, {"<tool_call>not json</tool_call>", "", {}});
  expect("<tool_call>{\"nam", kHermes, {"<tool_call>{\"nam", "", {}});
  expect("{\"answer\": 42}", kLlama, {"{\"answer\": 42}", "", {}});
  expect("a < b", kHermes, {"a < b", "", {}});
}

TEST(OutputParser, AnswersInJsonAreNoCallsOfLlama) {
  for (std::string answer :
       {R"({"name": "Bob", "age": 3})", R"({"name": "Bob"} is my answer)", R"({"name": "f"})", R"({"name": "f", "age": 3} x)",
        R"({"name": "Bob", "parameters": {"a": 1}})", R"({"name": "f", "parameters": 7})"})
    expect(answer, kLlama, {answer, "", {}});
}

TEST(OutputParser, CallsWithoutArgumentsHaveNone) {
  for (std::string arguments : {"", R"(, "arguments": {})", R"(, "arguments": null)", R"(, "arguments": "")"})
    expect("<tool_call>{\"name\": \"g\"" + arguments + "}</tool_call>", kHermes, {"", "", {{"g", "{}"}}});
  expect("<tool_call>{\"name\": \"g\", \"arguments\": [1]}</tool_call>", kHermes,
         {"<tool_call>{\"name\": \"g\", \"arguments\": [1]}</tool_call>", "", {}});
}

TEST(OutputParser, TornCallsAreText) {
  for (std::string torn :
       {R"({"name": "f", "arg)", R"({"name": "f", "arguments": )", R"({"name": "f", "arguments": "{\")", R"({"name": "f")"}) {
    expect("<tool_call>" + torn, kHermes, {"<tool_call>" + torn, "", {}});
    expect(torn, kLlama, {torn, "", {}});
    expect(torn, forced("hermes"), {torn, "", {}});
  }
  std::string late = R"({"name": "f", "arguments": {"a": )";
  expect("Well. <tool_call>" + late, kHermes, {"Well.", "", {{"f", "{\"a\": "}}, "<tool_call>" + late});
  expect(late, forced("hermes"), {"", "", {{"f", "{\"a\": "}}, late});
}

TEST(OutputParser, LlamaCalls) {
  expect("{\"name\": \"f\", \"parameters\": {\"a\": 1}}", kLlama, {"", "", {{"f", "{\"a\": 1}"}}});
  expect("<|python_tag|>{\"name\": \"f\", \"parameters\": {\"a\": 1}}; {\"name\": \"g\", \"parameters\": {}}", kLlama,
         {"", "", {{"f", "{\"a\": 1}"}, {"g", "{}"}}});
}

TEST(OutputParser, OneCallOnly) {
  std::string call = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  expect(call + call, {.calls = find_call_syntax("hermes"), .one_call = true}, {"", "", {{"f", "{}"}}});
  expect("{\"name\": \"f\", \"arguments\": {\"a\": 1}}", forced("hermes"), {"", "", {{"f", "{\"a\": 1}"}}});
}

// Each form as its models write it: one call, and two of them behind a word.
TEST(OutputParser, CallsOfEveryForm) {
  struct Case {
    std::vector<std::string_view> forms;
    std::string one, two;
    std::string arguments = R"({"a": "x\ny", "n": 3})";
    std::string rest = "";
  };
  const std::string function = "<function=f>\n<parameter=a>\nx\ny\n</parameter>\n<parameter=n>\n3\n</parameter>\n</function>";
  const std::string tags =
      "<arg_key>a</arg_key>\n<arg_value>x\ny</arg_value>\n<arg_key>n</arg_key>\n<arg_value>3</arg_value>\n</tool_call>";
  const std::string json = R"({"a": "x\ny", "n": 3})", object = R"({"name": "f", "arguments": )" + json + "}",
                    other = R"({"name": "g", "arguments": {}})";
  const std::string seed = "<parameter=a>x\ny</parameter>\n<parameter=n>3</parameter>\n</function>";
  const std::string invoke =
      "<invoke name=\"f\">\n<parameter name=\"a\">x\ny</parameter>\n<parameter name=\"n\">3</parameter>\n</invoke>";
  const Case cases[] = {
      {{"hermes", "qwen", "ling"},
       "<tool_call>\n" + object + "\n</tool_call>",
       "<tool_call>\n" + object + "\n</tool_call>\n<tool_call>\n" + other + "\n</tool_call>"},
      {{"hunyuan_hermes"},
       "<tool_calls>\n<tool_call>f\n```json\n" + json + "\n```</tool_call>\n</tool_calls>",
       "<tool_calls>\n<tool_call>\n" + object + "\n</tool_call>\n<tool_call>g\n```json\n{}\n```</tool_call>\n</tool_calls>"},
      {{"mistral"}, "[TOOL_CALLS] [" + object + "]", "[TOOL_CALLS][\n" + object + "\n" + other + "\n]"},
      {{"mistral"}, "[TOOL_CALLS]f[ARGS]" + json, "[TOOL_CALLS]f" + json + "[TOOL_CALLS]g[ARGS]{}"},
      {{"minimax1"}, "<tool_calls>\n" + object + "\n</tool_calls>", "<tool_calls>\n" + object + "\n" + other + "\n</tool_calls>"},
      {{"react", "react_en", "react_zh", "react_grpo", "default", "phi4_mini"},
       "Action: f\nAction Input: " + json + "\n",
       "Action: f\nAction Input: " + json + "\nAction: g\nAction Input: {}\n"},
      {{"qwen_en", "qwen_zh_parallel"},
       "✿FUNCTION✿: f\n✿ARGS✿: " + json,
       "✿FUNCTION✿: f\n✿ARGS✿: " + json + "\n✿FUNCTION✿: g\n✿ARGS✿: {}"},
      {{"deepseek_v3", "deepseek_v3_1"},
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n" + json +
           "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>" + json +
           "<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {{"qwen3_coder", "qwen3_5"},
       "<tool_call>\n" + function + "\n</tool_call>",
       "<tool_call>\n" + function + "\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n</tool_call>"},
      {{"seed_oss"},
       "<seed:tool_call>\n<function=f\n" + seed + "\n</seed:tool_call>",
       "<seed:tool_call>\n<function=f>\n" + seed + "\n<function=g></function></seed:tool_call>"},
      {{"minimax2"},
       "<minimax:tool_call>\n" + invoke + "\n</minimax:tool_call>",
       "<minimax:tool_call>\n" + invoke + "\n<invoke name=\"g\">\n</invoke>\n</minimax:tool_call>"},
      {{"glm4_5", "glm4_7", "glm5_1", "glm4_moe"}, "<tool_call>f\n" + tags, "<tool_call>f" + tags + "\n<tool_call>g</tool_call>"},
      {{"lfm2"},
       "<|tool_call_start|>[f(a=\"x\\ny\", n=3)]<|tool_call_end|>",
       "<|tool_call_start|>[f(a='x\\ny', n=3), g()]<|tool_call_end|>",
       R"({"a":"x\ny","n":3})"},
  };
  for (const auto& [names, one, two, arguments, rest] : cases)
    for (auto name : names) {
      SCOPED_TRACE(name);
      expect(one, form(name), {"", "", {{"f", arguments}}});
      expect("<think>hm</think>Well.\n" + two, form(name), {"Well.", "hm", {{"f", arguments}, {"g", "{}"}}});
      expect("a <", form(name), {"a <", "", {}});
    }
}

TEST(OutputParser, BareCallsAreKnownByTheirName) {
  expect("\nf\n{\"a\": 1}", form("glm4"), {"", "", {{"f", "{\"a\": 1}"}}});
  expect("f\n{\"a\": 1}<|assistant|>g\n{}", form("chatglm4"), {"", "", {{"f", "{\"a\": 1}"}, {"g", "{}"}}});
  expect(
      "["
      R"({"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}])",
      form("mistral"), {"", "", {{"f", "{\"a\": 1}"}, {"g", "{}"}}});
  expect(R"([{"name": "f", "parameters": {"a": 1}}, {"name": "g", "parameters": {"b": 2}}])", kLlama,
         {"", "", {{"f", "{\"a\": 1}"}, {"g", "{\"b\": 2}"}}});
  for (std::string answer : {"Hello\n{}", "f is a letter", "  fine\n{\"a\": 1}", "[1, 2]", "f\n[1]", "f", "f\n"}) {
    expect(answer, form("glm4"), {answer, "", {}});
    expect(answer, form("mistral"), {answer, "", {}});
  }
}

TEST(OutputParser, ArgumentsAsPythonPrintsThem) {
  expect("Action: f\nAction Input: {'a': 'it\\'s', 'on': True, 'b': None}\n", form("react_en"),
         {"", "", {{"f", R"({"a":"it's","on":true,"b":null})"}}});
  expect("f\n{'a': \"}\"}", form("glm4"), {"", "", {{"f", R"({"a":"}"})"}}});
  expect("Action: f\nAction Input: {'a': oops}\n", form("react_en"), {"Action: f\nAction Input: {'a': oops}\n", "", {}});
}

TEST(OutputParser, SchemasTypeBareArguments) {
  auto call = [](std::string key, std::string value) {
    return "<tool_call><function=f><parameter=" + key + ">" + value + "</parameter></function></tool_call>";
  };
  auto coder = form("qwen3_coder");
  expect(call("a", "3"), coder, {"", "", {{"f", R"({"a": "3"})"}}});
  expect(call("on", "True"), coder, {"", "", {{"f", R"({"on": true})"}}});
  expect(call("n", "three"), coder, {"", "", {{"f", R"({"n": "three"})"}}});
  expect(call("other", "[1, {}]"), coder, {"", "", {{"f", R"({"other": [1,{}]})"}}});
  expect(call("other", " a < b </p> "), coder, {"", "", {{"f", R"({"other": " a < b </p> "})"}}});
}

TEST(OutputParser, WhatIsNoCallOfAFormIsText) {
  const std::pair<std::string_view, std::string> cases[] = {{"react_en", "Action: wait and see\nAction Input: soon"},
                                                            {"react_en", "Action: f\nThen {}"},
                                                            {"qwen_en", "✿FUNCTION✿: f"},
                                                            {"qwen3_coder", "<tool_call>\n<fun>\n</tool_call>"},
                                                            {"qwen3_coder", "<tool_call><function=f><x>"},
                                                            {"minimax2", "<invoke name=\"f g\">"},
                                                            {"glm4_5", "<tool_call>f g</tool_call>"},
                                                            {"lfm2", "<|tool_call_start|>[f(1)]<|tool_call_end|>"},
                                                            {"lfm2", "<|tool_call_start|>[f(a=x)]"},
                                                            {"deepseek_v3_1", "<｜tool▁calls▁begin｜>nothing to call"},
                                                            {"mistral", "[TOOL_CALLS] none"},
                                                            {"hunyuan_hermes", "<tool_calls>\n</tool_calls>"}};
  for (const auto& [name, text] : cases) {
    SCOPED_TRACE(text);
    expect(text, form(name), {text, "", {}});
  }
}

TEST(OutputParser, ForcedCallsBeginInside) {
  expect(" f\nAction Input: {\"a\": 1}", forced("react_en"), {"", "", {{"f", "{\"a\": 1}"}}});
  expect("f>\n<parameter=n>\n1\n</parameter>\n</function>", forced("qwen3_coder"), {"", "", {{"f", "{\"n\": 1}"}}});
  expect("f\n```json\n{\"a\": 1}", forced("deepseek_v3"), {"", "", {{"f", "{\"a\": 1}"}}});
  expect("f(n=1)", forced("lfm2"), {"", "", {{"f", "{\"n\":1}"}}});
  expect("f(n=1", forced("lfm2"), {"f(n=1", "", {}});
}

}  // namespace
}  // namespace hone::serve
