#include <gtest/gtest.h>

#include "data/converted_row.h"
#include "hone/data/datasets/dataset_info.h"
#include "hone/data/formats/format.h"
#include "hone/data/row_report.h"

namespace hone::data {
namespace {

FactoryEntry entry(const std::string& json) {
  return parse_factory_entry("e", Json::parse(json)).or_throw(ExitCode::bad_data, "e");
}

std::string factory_messages(const std::string& info, const std::string& row, RowRequirements demands = {}) {
  auto options = entry(info).format;
  options.demands = demands;
  auto conversation = convert(*factory_format(options), row);
  return conversation ? shown(conversation->messages) : "error: " + std::string(name(problem_of(conversation.error())));
}

TEST(FactoryFormat, Alpaca) {
  const std::string plain = R"({"file_name":"x.json"})";
  EXPECT_EQ(factory_messages(plain, R"({"instruction":"a","input":"b","output":"c"})"), "user: a\nb\nassistant: c\n");
  EXPECT_EQ(factory_messages(plain, R"({"instruction":"a","input":"","output":"c"})"), "user: a\nassistant: c\n");
  // Naming some columns unsets the others: the input is not read.
  EXPECT_EQ(factory_messages(
                R"({"file_name":"x.json","columns":{"prompt":"instruction","response":"output","system":"sys","history":"old"}})",
                R"({"instruction":"a","input":"b","output":"c","sys":"s","old":[["q","r"]]})"),
            "system: s\nuser: q\nassistant: r\nuser: a\nassistant: c\n");
  EXPECT_EQ(factory_messages(plain, R"({"instruction":"a","output":""})"), "error: empty response");
  EXPECT_EQ(factory_messages(plain, R"({"output":"c"})"), "error: missing columns");
  auto why = convert(*factory_format(entry(plain).format), R"({"instruction":"a","reply":"c"})");
  EXPECT_EQ(why.error(),
            "f.jsonl:7: missing columns: no column \"output\", only \"instruction\" and \"reply\"; dataset_info.json says which "
            "one holds what: \"columns\": {\"response\": \"reply\"}");
}

TEST(FactoryFormat, MisspelledKeysOfAnEntryAreNamed) {
  const auto misspelled = entry(R"({"file_name":"x","_comment":"","file_sha1":"","colums":{},"ranking":false,
                                    "columns":{"promt":"instruction"},"tags":{"user_tag":"user"}})");
  EXPECT_EQ(misspelled.unread, (std::vector<std::string>{"\"promt\" of \"columns\" is not read; did you mean \"prompt\"?",
                                                         "\"colums\" is not read; did you mean \"columns\"?"}));
  EXPECT_EQ(entry(R"({"hf_hub_url":"a/b","columns":{"prompt":"q"},"tags":{"role_tag":"role"}})").unread,
            std::vector<std::string>());
}

TEST(FactoryFormat, NamesThatAnEntryLeavesUnsetAreExplained) {
  auto why = [](const std::string& info, const std::string& row) {
    return convert(*factory_format(entry(info).format), row).error();
  };
  EXPECT_EQ(why(R"({"file_name":"x","columns":{"prompt":"instruction"}})", R"({"instruction":"a","output":"b"})"),
            "f.jsonl:7: missing columns: \"columns\" in dataset_info.json gives no column as \"response\"; the row has "
            "\"instruction\" and \"output\"");
  const std::string row = R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]})";
  EXPECT_EQ(why(R"({"file_name":"x","formatting":"sharegpt","columns":{"messages":"messages"},"tags":{"role_tag":"role"}})", row),
            "f.jsonl:7: unknown role: messages[0].role is \"user\"; \"tags\" in dataset_info.json gives no role as \"user_tag\"");
  EXPECT_EQ(why(R"({"file_name":"x","formatting":"openai","columns":{"messages":"messages"}})", row),
            "f.jsonl:7: missing columns: messages[0] has no \"from\" text; expected the role there, or in dataset_info.json "
            "\"tags\": {\"role_tag\": \"role\", …}");
}

TEST(FactoryFormat, AlpacaRankingAndKto) {
  auto ranking = entry(R"({"file_name":"x","ranking":true,"columns":{"prompt":"p","chosen":"c","rejected":"r"}})");
  auto row = convert(*factory_format(ranking.format), R"({"p":"a","c":"good","r":"bad"})");
  ASSERT_TRUE(row.ok()) << row.error();
  EXPECT_EQ(shown(row->messages) + shown(row->rejected), "user: a\nassistant: good\nuser: a\nassistant: bad\n");
  auto kto = entry(R"({"file_name":"x","columns":{"prompt":"p","response":"r","kto_tag":"ok"}})");
  row = convert(*factory_format(kto.format), R"({"p":"a","r":"b","ok":false})");
  ASSERT_TRUE(row.ok()) << row.error();
  EXPECT_EQ(row->label, false);
}

TEST(FactoryFormat, SharegptAlternatesStrictly) {
  const std::string info = R"({"file_name":"x","formatting":"sharegpt","columns":{"messages":"conversations","tools":"tools"}})";
  EXPECT_EQ(
      factory_messages(
          info,
          R"({"conversations":[{"from":"system","value":"s"},{"from":"human","value":"a"},{"from":"function_call","value":"{}"},{"from":"observation","value":"o"},{"from":"gpt","value":"b"}],"tools":"[]"})"),
      "system: s\nuser: a\ntool_call: {}\ntool: o\nassistant: b\n");
  EXPECT_EQ(factory_messages(info, R"({"conversations":[{"from":"gpt","value":"a"},{"from":"human","value":"b"}]})"),
            "error: roles out of order");
  EXPECT_EQ(factory_messages(info, R"({"conversations":[{"from":"human","value":"a"}]})"), "error: roles out of order");
  EXPECT_EQ(factory_messages(info, R"({"conversations":[{"from":"user","value":"a"},{"from":"gpt","value":"b"}]})"),
            "error: unknown role");
}

TEST(FactoryFormat, SharegptRanking) {
  auto info = entry(
      R"({"file_name":"x","formatting":"sharegpt","ranking":true,"columns":{"messages":"conversations","chosen":"chosen","rejected":"rejected"}})");
  auto row = convert(
      *factory_format(info.format),
      R"({"conversations":[{"from":"human","value":"a"}],"chosen":{"from":"gpt","value":"good"},"rejected":{"from":"gpt","value":"bad"}})");
  ASSERT_TRUE(row.ok()) << row.error();
  EXPECT_EQ(shown(row->messages) + shown(row->rejected), "user: a\nassistant: good\nuser: a\nassistant: bad\n");
}

TEST(FactoryFormat, OpenaiMergesToolResults) {
  const std::string info =
      R"({"file_name":"x","formatting":"openai","columns":{"messages":"messages","tools":"tools"},"tags":{"role_tag":"role","content_tag":"content","user_tag":"user","assistant_tag":"assistant","observation_tag":"tool","function_tag":"function","system_tag":"system"}})";
  EXPECT_EQ(
      factory_messages(
          info,
          R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]},{"role":"tool","content":"1"},{"role":"tool","content":"2"},{"role":"assistant","content":"b"}],"tools":[{"x":1}]})"),
      "user: a\ntool_call: [{\"name\": \"f\", \"arguments\": \"{}\"}]\ntool: 1\n</tool_response>\n<tool_response>\n2\nassistant: "
      "b\n");
  EXPECT_EQ(factory_messages(info, R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]})"),
            "system: detailed thinking off\nuser: a\nassistant: b\n");
}

TEST(FactoryFormat, PretrainingTakesThePromptOnly) {
  EXPECT_EQ(factory_messages(R"({"file_name":"x","columns":{"prompt":"text"}})", R"({"text":"long text","other":1})",
                             {.pretraining = true}),
            "assistant: long text\n");
}

}  // namespace
}  // namespace hone::data
