#include <gtest/gtest.h>

#include <algorithm>

#include "hone/data/datasets/dataset_info.h"
#include "hone/data/formats/format.h"
#include "hone/data/formats/python_literal.h"
#include "hone/data/row_report.h"
#include "hone/text/templates/python_json.h"

namespace hone::data {
namespace {

// "role: content" lines, "role(loss=…): content" where a message carries a loss.
std::string shown(const std::vector<Message>& messages) {
  std::string text;
  for (const auto& message : messages) {
    text += message.role;
    if (message.loss) text += *message.loss ? "(loss)" : "(no loss)";
    if (message.loss_scale) text += fmt::format("(x{})", *message.loss_scale);
    text += ": " + message.content + "\n";
  }
  return text;
}

Result<Conversation> convert(const RowFormat& format, const std::string& json) {
  return format.convert(Row{Json::parse(json), RowOrigin{"f.jsonl", 7, "f"}});
}

std::vector<std::string> keys(const std::string& json) {
  std::vector<std::string> names;
  auto row = Json::parse(json);
  for (const auto& field : row.items()) names.push_back(field.key());
  return names;
}

Result<Conversation> swift(const std::string& json, SwiftFormatOptions options = {}) {
  return convert(*swift_format(options, keys(json)), json);
}

std::string swift_messages(const std::string& json, SwiftFormatOptions options = {}) {
  auto conversation = swift(json, std::move(options));
  return conversation ? shown(conversation->messages) : "error: " + conversation.error();
}

RowProblem swift_problem(const std::string& json) {
  auto conversation = swift(json);
  return conversation ? RowProblem::other : problem_of(conversation.error());
}

const std::string kHello = "user: hi\nassistant: hello\n";

TEST(SwiftFormat, MessageLists) {
  EXPECT_EQ(swift_messages(R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]})"), kHello);
  EXPECT_EQ(swift_messages(R"({"conversations":[{"from":"human","value":"hi"},{"from":"gpt","value":"hello"}]})"), kHello);
  EXPECT_EQ(
      swift_messages(R"({"Conversation":[{"from":"human","value":"hi"},{"from":"bot","value":"hello"}],"conversation":null})"),
      "error: f.jsonl:7: missing columns: columns \"Conversation\"; expected messages, or a query and a response: did you mean "
      "`columns` '{\"Conversation\": \"conversations\"}'?");
  EXPECT_EQ(swift_messages(R"({"conversation":[{"human":"hi","assistant":"hello"}],"system":"be kind"})"),
            "system: be kind\n" + kHello);
  EXPECT_EQ(swift_messages(R"({"messages":"[{'role': 'user', 'content': 'hi'}, {'role': 'assistant', 'content': \"hello\"}]"})"),
            kHello);
}

// Where columns are not understood, the message suggests a mapping; with it the row is read.
TEST(SwiftFormat, ColumnsThatCouldBeMeantAreNamed) {
  const std::string contested = R"({"problem":"hi","solution":"steps","answer":"hello"})";
  EXPECT_EQ(swift_messages(contested),
            "error: f.jsonl:7: missing columns: \"solution\" and \"answer\" could each be the answer; choose one with `columns` "
            "'{\"answer\": \"response\"}'");
  SwiftFormatOptions chosen;
  chosen.columns = {{"answer", "response"}};
  EXPECT_EQ(swift_messages(contested, chosen), kHello);
  EXPECT_EQ(swift_messages(R"({"question":"hi","prompt":"hey","answer":"hello"})"),
            "error: f.jsonl:7: missing columns: \"question\" and \"prompt\" could each be the question; choose one with "
            "`columns` '{\"prompt\": \"query\"}'");
  EXPECT_EQ(swift_messages(R"({"question":"hi","reply":"hello"})"),
            "error: f.jsonl:7: missing columns: none of the columns \"question\" and \"reply\" is known to hold the answer; name "
            "it with `columns` '{\"reply\": \"response\"}'");
  EXPECT_EQ(swift_messages(R"({"mesages":[{"role":"user","content":"hi"}]})"),
            "error: f.jsonl:7: missing columns: columns \"mesages\"; expected messages, or a query and a response: did you mean "
            "`columns` '{\"mesages\": \"messages\"}'?");
  EXPECT_EQ(swift_messages(R"({"指令":"hi","输入":"","输出":"hello"})"),
            "error: f.jsonl:7: missing columns: columns \"指令\", \"输入\" and \"输出\"; expected messages, or a query and a "
            "response: did you mean `columns` '{\"指令\": \"instruction\", \"输入\": \"input\", \"输出\": \"output\"}'?");
  EXPECT_EQ(swift_messages(R"({"问题":"hi","提示":"","回答":"hello"})"),
            "error: f.jsonl:7: missing columns: columns \"问题\", \"提示\" and \"回答\"; expected messages, or a query and a "
            "response: did you mean `columns` '{\"问题\": \"query\", \"回答\": \"response\"}'?");
  EXPECT_EQ(
      swift_messages(R"({"promt":"hi","responce":"hello"})"),
      "error: f.jsonl:7: missing columns: columns \"promt\" and \"responce\"; expected messages, or a query and a response: "
      "did you mean `columns` '{\"promt\": \"prompt\", \"responce\": \"response\"}'?");
  EXPECT_EQ(swift_messages(R"({"frage":"hi","antwort":"hello"})"),
            "error: f.jsonl:7: missing columns: columns \"frage\" and \"antwort\"; expected messages, or a query and a response: "
            "`columns` '{\"frage\": \"query\", \"antwort\": "
            "\"response\"}' says which is which");
  EXPECT_EQ(swift_messages(R"({"question;answer":"hi;hello"})"),
            "error: f.jsonl:7: missing columns: the first line is one column, \"question;answer\", whose parts \";\" separates; "
            "expected commas, or tabs in a file called .tsv");
}

TEST(SwiftFormat, SystemColumnYieldsToASystemMessage) {
  EXPECT_EQ(
      swift_messages(
          R"({"messages":[{"role":"system","content":"a"},{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}],"system_prompt":"b"})"),
      "system: a\n" + kHello);
}

TEST(SwiftFormat, PerMessageLoss) {
  EXPECT_EQ(
      swift_messages(
          R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"a","loss":false},{"role":"user","content":"x"},{"role":"assistant","content":"b","loss_scale":2.5}]})"),
      "user: hi\nassistant(no loss): a\nuser: x\nassistant(x2.5): b\n");
}

TEST(SwiftFormat, AlpacaAndQueryResponse) {
  EXPECT_EQ(swift_messages(R"({"instruction":"hi","input":"","output":"hello"})"), kHello);
  EXPECT_EQ(swift_messages(R"({"instruction":"a","input":"b","output":"c"})"), "user: a\nb\nassistant: c\n");
  EXPECT_EQ(swift_messages(R"({"query":"hi","response":"hello","history":[["a","b"]],"system":"s"})"),
            "system: s\nuser: a\nassistant: b\n" + kHello);
  EXPECT_EQ(swift_messages(R"({"Question":"hi","Answer":"hello"})"), kHello);
  EXPECT_EQ(swift_messages(R"({"prompt":"hi","completion":["hello","other"]})"), kHello);
  EXPECT_EQ(swift_messages(R"({"query":"hi","response":"hello","history":"[('a', 'b')]"})"), "user: a\nassistant: b\n" + kHello);
  EXPECT_EQ(swift_messages(R"({"response":"only text"})"), "assistant: only text\n");
}

TEST(SwiftFormat, ColumnsThatContestATargetKeepTheirNames) {
  auto row = swift(R"({"query":"hi","response":"hello","answer":"42"})");
  ASSERT_TRUE(row.ok()) << row.error();
  EXPECT_EQ(shown(row->messages), kHello);
  EXPECT_EQ(row->extra["answer"], "42");
}

TEST(SwiftFormat, RowsOfSeveralFormatsInOneFile) {
  std::vector<std::string> rows = {
      R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]})",
      R"({"instruction":"hi","input":"","output":"hello"})",
      R"({"query":"hi","response":"hello"})",
      R"({"conversations":[{"from":"human","value":"hi"},{"from":"gpt","value":"hello"}],"messages":null})",
      R"({"prompt":"hi","chosen":"hello","rejected":"no"})",
      R"({"question":"hi","answer":"hello"})"};
  std::vector<std::string> all;
  for (const auto& row : rows)
    for (const auto& name : keys(row))
      if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
  auto first_row_only = swift_format({}, keys(rows[0])), whole_file = swift_format({}, all);
  for (const auto& row : rows)
    for (const auto* format : {&whole_file, &first_row_only}) {
      auto conversation = convert(**format, row);
      EXPECT_EQ(conversation ? shown(conversation->messages) : conversation.error(), kHello) << row;
    }
  // Of a row that has the question, the names that other rows contest stay as they are.
  auto contested = swift_format({}, {"query", "response", "text"});
  auto prompt = convert(*contested, R"({"query":"hi","text":"x","response":null})");
  EXPECT_TRUE(!prompt.ok() || shown(prompt->messages).find('x') == std::string::npos);
}

TEST(SwiftFormat, ColumnMapAndSolution) {
  SwiftFormatOptions options;
  options.columns = {{"Frage", "query"}, {"antwort", "response"}};
  EXPECT_EQ(swift_messages(R"({"frage":"hi","Antwort":"hello"})", options), kHello);
  auto row = swift(R"({"problem":"1+1","solution":"2"})");
  ASSERT_TRUE(row.ok());
  EXPECT_EQ(shown(row->messages), "user: 1+1\nassistant: 2\n");
  EXPECT_EQ(row->extra["solution"], "2");
}

TEST(SwiftFormat, PreferencePairs) {
  auto row =
      swift(R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}],"rejected_response":"no"})");
  ASSERT_TRUE(row.ok()) << row.error();
  EXPECT_EQ(shown(row->rejected), "user: hi\nassistant: no\n");
  row = swift(
      R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}],"rejected_messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"no"}]})");
  EXPECT_EQ(shown(row->rejected), "user: hi\nassistant: no\n");
  EXPECT_TRUE(row->extra.is_null());
  row = swift(
      R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}],"tools":[{"name":"f"}],"rejected_messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"no"}]})");
  ASSERT_TRUE(row.ok()) << row.error();
  EXPECT_EQ(row->extra["rejected_tools"], Json::array());  // as in ms-swift, those of the row are not theirs
  row = swift(R"({"prompt":"hi","chosen":"hello","rejected":"no"})");
  ASSERT_TRUE(row.ok()) << row.error();
  EXPECT_EQ(shown(row->messages) + shown(row->rejected), kHello + "user: hi\nassistant: no\n");
  row = swift(
      R"({"chosen":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}],"rejected":[{"role":"user","content":"hi"},{"role":"assistant","content":"no"}]})");
  ASSERT_TRUE(row.ok()) << row.error();
  EXPECT_EQ(shown(row->messages) + shown(row->rejected), kHello + "user: hi\nassistant: no\n");
  row = swift(
      R"({"conversations":[{"from":"human","value":"hi"}],"chosen":{"from":"gpt","value":"hello"},"rejected":{"from":"gpt","value":"no"}})");
  ASSERT_TRUE(row.ok()) << row.error();
  EXPECT_EQ(shown(row->messages) + shown(row->rejected), kHello + "user: hi\nassistant: no\n");
  EXPECT_EQ(swift_problem(R"({"query":"hi","response":"same","rejected_response":"same"})"), RowProblem::preference);
}

TEST(SwiftFormat, ComplaintsNameColumnsAsTheyAreWritten) {
  EXPECT_TRUE(swift(R"({"prompt":["hi"],"answer":"hello"})").error().ends_with("\"prompt\" is a list; expected text"));
  EXPECT_TRUE(swift(R"({"query":"hi","response":"hello","rejected_response":["no"]})")
                  .error()
                  .ends_with("\"rejected_response\" is a list that holds a string; expected text or messages"));
  EXPECT_TRUE(swift(R"({"prompt":"hi","chosen":"hello","rejected":7})")
                  .error()
                  .ends_with("\"rejected\" is a number; expected text or messages"));
  EXPECT_TRUE(swift(R"({"query":"hi","solution":2})").error().ends_with("\"solution\" is a number; expected text"));
  SwiftFormatOptions questions;
  questions.demands.prompts_only = true;
  auto asked = convert(*swift_format(questions, {"query", "solution"}), R"({"query":"hi","solution":2})");
  ASSERT_TRUE(asked.ok()) << asked.error();
  EXPECT_EQ(asked->extra["solution"], 2);
}

TEST(SwiftFormat, KtoToolsMediaAndExtraColumns) {
  auto row = swift(
      R"({"messages":[{"role":"user","content":"<image>hi"},{"role":"assistant","content":"hello"}],"label":true,"image":"a.png","videos":[["f1","f2"]],"tools":[{"name":"f"}],"channel":"c"})");
  ASSERT_TRUE(row.ok()) << row.error();
  EXPECT_EQ(row->label, true);
  EXPECT_EQ(row->images, std::vector<std::string>{"a.png"});
  EXPECT_EQ(row->videos, std::vector<std::string>{R"(["f1", "f2"])"});
  EXPECT_EQ(row->tools, R"([{"name": "f"}])");
  EXPECT_EQ(row->extra["channel"], "c");
}

TEST(SwiftFormat, ToolCallsOfEveryShape) {
  std::string expected = "user: w?\ntool_call: {\"name\": \"f\", \"arguments\": {\"a\": 1}}\ntool: 22\nassistant: warm\n";
  EXPECT_EQ(
      swift_messages(
          R"({"messages":[{"role":"user","content":"w?"},{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]},{"role":"tool","content":"22"},{"role":"assistant","content":"warm"}]})"),
      expected);
  EXPECT_EQ(
      swift_messages(
          R"({"conversations":[{"from":"human","value":"w?"},{"from":"function_call","value":"{\"name\": \"f\", \"arguments\": {\"a\": 1}}"},{"from":"observation","value":"22"},{"from":"gpt","value":"warm"}]})"),
      expected);
  EXPECT_EQ(
      swift_messages(
          R"({"messages":[{"role":"user","content":"w?"},{"role":"tool_call","content":{"name":"f","arguments":{"a":1}}},{"role":"tool_response","content":"22"},{"role":"assistant","content":"warm"}]})"),
      expected);
  EXPECT_EQ(
      swift_messages(
          R"({"messages":[{"role":"user","content":"w?"},{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"22"}]}]},{"role":"assistant","content":"warm"}]})"),
      expected);
}

TEST(SwiftFormat, ContentPartsBecomeTagsAndMedia) {
  auto row = swift(
      R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u.png"}},{"type":"text","text":"what?"},{"type":"audio","audio":"a.wav"}]},{"role":"assistant","content":"x"}]})");
  ASSERT_TRUE(row.ok()) << row.error();
  EXPECT_EQ(row->messages[0].content, "<image>what?<audio>");
  EXPECT_EQ(row->images, std::vector<std::string>{"u.png"});
  EXPECT_EQ(row->audios, std::vector<std::string>{"a.wav"});
}

TEST(SwiftFormat, BadRowsNameTheirKind) {
  EXPECT_EQ(swift_problem(R"({"messages":[{"role":"boss","content":"hi"},{"role":"assistant","content":"x"}]})"),
            RowProblem::role);
  EXPECT_EQ(swift_problem(R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":""}]})"),
            RowProblem::empty_answer);
  EXPECT_EQ(swift_problem(R"({"messages":[{"role":"user","content":"hi"}]})"), RowProblem::empty_answer);
  EXPECT_EQ(
      swift_problem(
          R"({"messages":[{"role":"user","content":"hi"},{"role":"system","content":"s"},{"role":"assistant","content":"x"}]})"),
      RowProblem::order);
  EXPECT_EQ(
      swift_problem(
          R"({"messages":[{"role":"user","content":"hi"},{"role":"tool","content":"s"},{"role":"assistant","content":"x"}]})"),
      RowProblem::order);
  EXPECT_EQ(swift_problem(R"({"messages":[{"role":"user","content":5},{"role":"assistant","content":"x"}]})"), RowProblem::type);
  EXPECT_EQ(swift_problem(R"({"messages":[]})"), RowProblem::columns);
  EXPECT_EQ(swift_problem(R"({"messages":7})"), RowProblem::type);
  EXPECT_EQ(swift_problem(R"({"messages":["x"]})"), RowProblem::type);
  EXPECT_EQ(swift_problem(R"({"foo":1})"), RowProblem::columns);
  EXPECT_EQ(swift_problem(R"({"query":1,"response":"x"})"), RowProblem::type);
  EXPECT_EQ(swift(R"({"messages":[{"role":"boss","content":"hi"}]})").error(),
            "f.jsonl:7: unknown role: messages[0].role is \"boss\"; expected system, user, assistant, tool_call or tool");
}

TEST(SwiftFormat, PretrainingAndPrompts) {
  SwiftFormatOptions options;
  options.demands.pretraining = true;
  auto row = swift(R"({"text":"all of it"})", options);
  ASSERT_TRUE(row.ok());
  EXPECT_TRUE(row->plain_text);
  EXPECT_EQ(shown(row->messages), "assistant: all of it\n");
  options.demands = {.prompts_only = true};
  EXPECT_EQ(swift_messages(R"({"messages":[{"role":"user","content":"hi"}]})", options), "user: hi\n");
}

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
  EXPECT_EQ(factory_messages(plain, R"({"instruction":"a","output":""})"), "error: empty answer");
  EXPECT_EQ(factory_messages(plain, R"({"output":"c"})"), "error: missing columns");
  auto why = convert(*factory_format(entry(plain).format), R"({"instruction":"a","reply":"c"})");
  EXPECT_EQ(why.error(),
            "f.jsonl:7: missing columns: no column \"output\", only \"instruction\" and \"reply\"; dataset_info.json says which "
            "one holds what: \"columns\": {\"response\": \"reply\"}");
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

TEST(PythonLiteral, ReadsWhatPythonWrites) {
  EXPECT_EQ(parse_python_literal(R"([{'a': "it's", 'b': None, 'c': (1, -2.5e3, True)}, 'x\n\u4f60\x41' 'y'])")->dump(),
            R"([{"a":"it's","b":null,"c":[1,-2500.0,true]},"x\n你Ay"])");
  for (auto bad : {"", "[", "[1 2]", "{'a' 1}", "'abc", "{1: 2}", "[1] x", "\\", "'\\x4", "foo"})
    EXPECT_FALSE(parse_python_literal(bad).ok()) << bad;
  EXPECT_FALSE(parse_python_literal(std::string(10000, '[')).ok());
}

TEST(PythonJson, WritesWhatPythonWrites) {
  EXPECT_EQ(text::python_dumps(Json::parse(R"({"a":[1,2.5,null,true],"é":"\n\"","e":{},"l":[]})")),
            R"({"a": [1, 2.5, null, true], "é": "\n\"", "e": {}, "l": []})");
  EXPECT_EQ(text::python_dumps(Json::parse("[1e15, 1e16, 0.0001, 0.00001]")), "[1000000000000000.0, 1e+16, 0.0001, 1e-05]");
}

}  // namespace
}  // namespace hone::data
