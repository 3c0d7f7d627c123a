#include <gtest/gtest.h>

#include <algorithm>

#include "data/converted_row.h"
#include "hone/data/formats/format.h"
#include "hone/data/row_report.h"

namespace hone::data {
namespace {

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
  EXPECT_EQ(
      swift_messages(contested),
      "error: f.jsonl:7: missing columns: \"solution\" and \"answer\" could each be the response; choose one with `columns` "
      "'{\"answer\": \"response\"}'");
  SwiftFormatOptions chosen;
  chosen.columns = {{"answer", "response"}};
  EXPECT_EQ(swift_messages(contested, chosen), kHello);
  EXPECT_EQ(swift_messages(R"({"question":"hi","prompt":"hey","answer":"hello"})"),
            "error: f.jsonl:7: missing columns: \"question\" and \"prompt\" could each be the question; choose one with "
            "`columns` '{\"prompt\": \"query\"}'");
  EXPECT_EQ(
      swift_messages(R"({"question":"hi","reply":"hello"})"),
      "error: f.jsonl:7: missing columns: none of the columns \"question\" and \"reply\" is known to hold the response; name "
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

// TRL's conversational rows: with an explicit prompt they are those whose halves repeat it.
TEST(SwiftFormat, ExplicitPromptsOfMessages) {
  const std::string system = R"({"role":"system","content":"be kind"})", asked = R"({"role":"user","content":"hi"})",
                    called = R"({"role":"tool_call","content":"f"},{"role":"tool","content":"1"})";
  const std::string good = R"({"role":"assistant","content":"hello"})", bad = R"({"role":"assistant","content":"no"})";
  for (const auto& prompt : {asked, system + "," + asked, asked + "," + good + "," + asked, asked + "," + called}) {
    auto apart = swift(fmt::format(R"({{"prompt":[{}],"chosen":[{}],"rejected":[{}]}})", prompt, good, bad));
    auto repeated = swift(fmt::format(R"({{"chosen":[{0},{1}],"rejected":[{0},{2}]}})", prompt, good, bad));
    ASSERT_TRUE(apart.ok()) << apart.error();
    ASSERT_TRUE(repeated.ok()) << repeated.error();
    EXPECT_EQ(shown(apart->messages), shown(repeated->messages));
    EXPECT_EQ(shown(apart->rejected), shown(repeated->rejected));
    EXPECT_TRUE(apart->extra.is_null());
    auto completed = fmt::format(R"({{"prompt":[{}],"completion":[{}]}})", prompt, good);
    EXPECT_EQ(swift_messages(completed), swift_messages(fmt::format(R"({{"messages":[{},{}]}})", prompt, good)));
    EXPECT_EQ(swift_messages(fmt::format(R"({{"prompt":[{}],"completion":"hello"}})", prompt)), swift_messages(completed));
  }
  SwiftFormatOptions questions;
  questions.demands.prompts_only = true;
  auto alone = convert(*swift_format(questions, {"prompt", "solution"}), fmt::format(R"({{"prompt":[{}],"solution":2}})", asked));
  ASSERT_TRUE(alone.ok()) << alone.error();
  EXPECT_EQ(shown(alone->messages), "user: hi\n");
  EXPECT_EQ(alone->extra["solution"], 2);
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

// The keys of transformers' chat templates.
TEST(SwiftFormat, PartsNameTheirSourceInSeveralWays) {
  const auto media = [](const std::string& part) {
    auto row = swift(R"({"messages":[{"role":"user","content":[)" + part +
                     R"(,{"type":"text","text":"what?"}]},{"role":"assistant","content":"x"}]})");
    if (!row) return row.error();
    std::string all = row->messages[0].content;
    for (const auto* list : {&row->images, &row->videos, &row->audios})
      for (const auto& source : *list) all += " " + source;
    return all;
  };
  EXPECT_EQ(media(R"({"type":"image","url":"http://a/b.png"})"), "<image>what? http://a/b.png");
  EXPECT_EQ(media(R"({"type":"image","image":null,"path":"b.png"})"), "<image>what? b.png");
  EXPECT_EQ(media(R"({"type":"image","base64":"aGVsbG8="})"), "<image>what? data:image/unknown;base64,aGVsbG8=");
  EXPECT_EQ(media(R"({"type":"image","base64":"data:image/png;base64,aGVsbG8="})"),
            "<image>what? data:image/png;base64,aGVsbG8=");
  EXPECT_EQ(media(R"({"type":"video","path":"b.mp4","fps":1})"), "<video>what? b.mp4");
  EXPECT_EQ(media(R"({"type":"audio","url":"b.wav"})"), "<audio>what? b.wav");
  EXPECT_EQ(media(R"({"type":"image"})"),
            "f.jsonl:7: media: a part of type \"image\" has no source, and the row no column \"images\"; expected \"image\", "
            "\"url\", \"path\" or \"base64\" in the part");
}

// As TRL writes rows: the parts say where the images of the column are.
TEST(SwiftFormat, PartsWithoutSourceStandForTheColumn) {
  const std::string messages =
      R"("messages":[{"role":"user","content":[{"type":"image"},{"type":"text","text":"what?"}]},{"role":"assistant","content":"x"}])";
  auto row = swift("{" + messages + R"(,"images":["a.png"]})");
  ASSERT_TRUE(row.ok()) << row.error();
  EXPECT_EQ(row->messages[0].content, "<image>what?");
  EXPECT_EQ(row->images, std::vector<std::string>{"a.png"});
  EXPECT_EQ(swift_problem("{" + messages + R"(,"images":[]})"), RowProblem::media);
  EXPECT_EQ(
      swift_problem(
          R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"x"}],"rejected_messages":[{"role":"user","content":[{"type":"image"}]},{"role":"assistant","content":"y"}]})"),
      RowProblem::media);
}

TEST(SwiftFormat, BadRowsNameTheirKind) {
  EXPECT_EQ(swift_problem(R"({"messages":[{"role":"boss","content":"hi"},{"role":"assistant","content":"x"}]})"),
            RowProblem::role);
  EXPECT_EQ(swift_problem(R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":""}]})"),
            RowProblem::empty_response);
  EXPECT_EQ(swift_problem(R"({"messages":[{"role":"user","content":"hi"}]})"), RowProblem::empty_response);
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

}  // namespace
}  // namespace hone::data
