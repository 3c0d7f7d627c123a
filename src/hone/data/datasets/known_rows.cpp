// The rows that ms-swift makes of known datasets: questions it adds, text it cuts, pairs it builds.
#include <map>

#include "hone/base/strings/replace_all.h"
#include "hone/base/strings/trimmed.h"
#include "hone/data/datasets/known_datasets.h"
#include "hone/data/datasets/known_media_rows.h"
#include "hone/data/datasets/row_changes.h"
#include "hone/text/templates/python_json.h"

namespace hone::data {
namespace {

Json parsed_or(const std::string& text, Json otherwise) {
  auto parsed = parse_json(text);
  return parsed ? std::move(parsed).value() : otherwise;
}

bool strip_input_mark(Json& fields, const RowOrigin&) {
  constexpr std::string_view kMark = "输入：";
  if (auto input = column_text(fields, {"input"}); input.starts_with(kMark)) fields["input"] = input.substr(kMark.size());
  return true;
}

bool strip_answer_mark(Json& fields, const RowOrigin&) {
  constexpr std::string_view kMark = "Answer: ";
  for (const char* name : {"output", "response"})
    if (auto text = column_text(fields, {name}); text.starts_with(kMark)) fields[name] = trimmed(text.substr(kMark.size()));
  return true;
}

// Titles of a forum, numbered in some files: "12. title".
bool join_title(Json& fields, const RowOrigin&) {
  auto title = column_text(fields, {"title", "content", "response"});
  if (auto more = column_text(fields, {"abs"}); !more.empty() && more != title) title += "，" + more;
  for (size_t at = 1; at < title.size(); ++at) {
    const bool numbered = title[at - 1] >= '0' && title[at - 1] <= '9';
    size_t mark = 0;
    if (numbered && std::string_view(".,  \t\r\n").find(title[at]) != std::string_view::npos) mark = 1;
    if (numbered && title.compare(at, std::string_view("、").size(), "、") == 0) mark = std::string_view("、").size();
    if (mark == 0 || at + mark >= title.size() || title[at + mark] == '\n') continue;
    title = title.substr(at + mark, title.find('\n', at + mark) - at - mark);
    break;
  }
  if (title.empty()) return false;
  fields = Json{{"messages", Json::array({chat_message("assistant", title)})}};
  return true;
}

bool join_answer(Json& fields, const RowOrigin&) {
  fields["response"] = filled("{output}\n\nAnswer: {answer}", fields, {"output", "answer"});
  return true;
}

bool explain_sql(Json& fields, const RowOrigin&) {
  fields["query"] = filled("Sql Table information:\n{sql_context}\n{sql_prompt}", fields, {"sql_context", "sql_prompt"});
  fields["response"] =
      filled("Let's think step by step:\n{sql_explanation}\nSo the final sql is:\n{sql}", fields, {"sql_explanation", "sql"});
  return true;
}

bool pair_sentences(Json& fields, const RowOrigin&) {
  const auto* score = find_column(fields, {"score"});
  fields = Json{{"messages", Json::array({chat_message("user", column_text(fields, {"sentence1"}))})},
                {"positive_messages", Json::array({Json::array({chat_message("user", column_text(fields, {"sentence2"}))})})},
                {"label", score ? *score : Json()}};
  return true;
}

bool pair_alike_sentences(Json& fields, const RowOrigin& origin) {
  const auto* score = find_column(fields, {"score"});
  return score && score->is_number() && score->get<double>() >= 0.75 && pair_sentences(fields, origin);
}

constexpr const char* kLikenessQuestion =
    "Task: Based on the given two sentences, provide a similarity score between 0.0 and 1.0.\n"
    "Sentence 1: {sentence1}\nSentence 2: {sentence2}\nSimilarity score: ";

bool ask_likeness(Json& fields, const RowOrigin&) {
  fields["query"] = filled(kLikenessQuestion, fields, {"sentence1", "sentence2"});
  const auto* score = find_column(fields, {"score"});
  fields["response"] = fmt::format("{:.1f}", score && score->is_number() ? score->get<double>() : 0.0);
  return true;
}

bool grade_likeness(Json& fields, const RowOrigin&) {
  fields["query"] = filled(kLikenessQuestion, fields, {"sentence1", "sentence2"});
  if (const auto* score = find_column(fields, {"score"})) fields["label"] = *score;
  return true;
}

Json candidates(const Json& fields, const char* column, const char* role) {
  Json list = Json::array();
  const auto* value = find_column(fields, {column});
  if (!value) return list;
  for (const auto& text : value->is_array() ? *value : Json::array({*value}))
    list.push_back(Json::array({chat_message(role, column_text(text))}));
  return list;
}

bool rank_candidates(Json& fields, const RowOrigin&) {
  fields = Json{{"messages", Json::array({chat_message("user", column_text(fields, {"query"}))})},
                {"positive_messages", candidates(fields, "positive", "assistant")},
                {"negative_messages", candidates(fields, "negative", "assistant")}};
  return true;
}

bool ask_countdown(Json& fields, const RowOrigin&) {
  const auto target = column_text(fields, {"target"});
  std::string numbers;
  if (const auto* list = find_column(fields, {"nums"}); list && list->is_array())
    for (const auto& number : *list) numbers += (numbers.empty() ? "" : ", ") + column_text(number);
  fields["query"] = fmt::format(
      "Using the numbers [{}], create an equation that equals {}.\n"
      "You can use basic arithmetic operations (+, -, *, /) and each number can only be used once.\n"
      "Show your work in <think> </think> tags. And return the final equation and answer in <answer> </answer> tags, for "
      "example <answer> (1 + 2) / 3 * 4 = 4 </answer>.",
      numbers, target);
  return true;
}

// The calls of a row: a list, or its JSON text.
Json listed_calls(const Json& fields) {
  const auto* value = find_column(fields, {"answers"});
  if (!value) return Json::array();
  auto list = value->is_string() ? parsed_or(value->get<std::string>(), Json::array()) : *value;
  return list.is_array() ? list : Json::array({list});
}

bool call_functions(Json& fields, const RowOrigin&) {
  Json messages = Json::array({chat_message("user", column_text(fields, {"query"}))});
  for (const auto& call : listed_calls(fields)) messages.push_back(chat_message("tool_call", text::python_dumps(call)));
  fields = Json{{"messages", std::move(messages)}, {"tools", fields.value("tools", Json())}};
  return true;
}

// The row's first call is the answer; ms-swift draws one.
bool act_by_function(Json& fields, const RowOrigin&) {
  const auto calls = listed_calls(fields);
  if (calls.empty() || !calls.front().is_object()) return false;
  const auto& call = calls.front();
  const auto text = fmt::format("Action: {}\nAction Input: {}", column_text(call.value("name", Json(""))),
                                text::python_dumps(call.value("arguments", Json::object())));
  fields = Json{{"query", column_text(fields, {"query"})},
                {"response", text},
                {"solution", text},
                {"tools", fields.value("tools", Json())}};
  return true;
}

// Variation selectors, which the rows are full of.
bool drop_selectors(Json& fields, const RowOrigin&) {
  for (const char* name : {"question", "prompt", "query", "answer_zh", "answer_en"})
    if (find_column(fields, {name})) fields[name] = replace_all(column_text(fields, {name}), "\xEF\xB8\x8F", "");
  return true;
}

bool split_functions(Json& fields, const RowOrigin&) {
  if (auto text = column_text(fields, {"function_description"}); !text.empty()) {
    Json tools = Json::array();
    for (size_t begin = 0; begin <= text.size();) {
      const auto end = std::min(text.find("\n\n", begin), text.size());
      const auto tool = text.substr(begin, end - begin);
      tools.push_back(parsed_or(tool, Json(tool)));
      begin = end + 2;
    }
    fields["tools"] = std::move(tools);
  }
  auto messages = fields.find("conversations");
  if (messages == fields.end()) messages = fields.find("messages");
  if (messages == fields.end() || !messages->is_array() || messages->empty() || !messages->front().is_object()) return true;
  const auto& first = messages->front();
  if (first.value("role", Json()) == "system" || first.value("from", Json()) == "system") messages->erase(messages->begin());
  return true;
}

bool add_information(Json& fields, const RowOrigin&) {
  const auto question = column_text(fields, {"instruction"}), context = column_text(fields, {"context"});
  fields["query"] = context.empty() ? question : fmt::format("Here gives some useful information:\n{}\n{}", context, question);
  return true;
}

bool is_not_toxic(Json& fields, const RowOrigin&) { return column_text(fields, {"source"}) != "toxic-dpo-v0.2"; }

std::string in_lines_of_nine(const std::string& cells) {
  std::string grid;
  for (size_t begin = 0; begin < cells.size(); begin += 9) grid += (begin ? "\n" : "") + cells.substr(begin, 9);
  return grid;
}

bool ask_sudoku(Json& fields, const RowOrigin&) {
  const auto puzzle = in_lines_of_nine(replace_all(column_text(fields, {"question"}), ".", "0"));
  fields["query"] =
      "Solve the following 9x9 Sudoku puzzle. Empty cells are marked with '0'. "
      "Provide the completed grid as your answer.\n\nPuzzle:\n" +
      puzzle;
  fields["response"] = in_lines_of_nine(column_text(fields, {"answer"}));
  return true;
}

bool ask_for_number(Json& fields, const RowOrigin&) {
  const char* name = find_column(fields, {"problem"}) ? "problem" : "query";
  fields[name] = column_text(fields, {name}) +
                 " Output the thinking process in <think> </think> and final answer (number) in <answer> </answer> tags.";
  return true;
}

bool keep_solution(Json& fields, const RowOrigin&) {
  if (const auto* answer = find_column(fields, {"answer"})) fields["solution"] = Json(*answer);
  return true;
}

// By dataset, or by dataset and subset.
const std::map<std::string, KnownRows>& changes() {
  static const std::vector<std::string> kPair{"sentence1", "sentence2", "score"};
  static const std::map<std::string, KnownRows> list = {
      {"AI-ModelScope/alpaca-gpt4-data-zh", {strip_input_mark, false, {"instruction", "input"}}},
      {"AI-ModelScope/LongAlpaca-12k", {strip_answer_mark, false, {"instruction", "output"}}},
      {"AI-ModelScope/ruozhiba", {join_title, true}},
      {"lvjianjin/AdvertiseGen",
       {with_filled("content",
                    "Task: Generating advertisements based on keywords.\nKeywords: {content}\nAdvertisements:", {"content"}),
        false,
        {"content", "summary"}}},
      {"modelscope/clue",
       {with_classes("Task: Natural Language Inference\nSentence1: {sentence1}\nSentence2: {sentence2}\nCategory: neutral, "
                     "entailment, contradiction\nOutput:",
                     {"sentence1", "sentence2"}, {"neutral", "entailment", "contradiction"}),
        false,
        {"sentence1", "sentence2", "label"}}},
      {"DAMO_NLP/jd:default",
       {with_classes("Task: Sentiment Classification\nSentence: {sentence}\nCategory: negative, positive\nOutput:", {"sentence"},
                     {"negative", "positive"}),
        false,
        {"sentence", "label"}}},
      {"AI-ModelScope/synthetic_text_to_sql", {explain_sql, false, {"sql_context", "sql_prompt", "sql_explanation", "sql"}}},
      {"AI-ModelScope/blossom-math-v2", {join_answer, false, {"output", "answer"}}},
      {"sentence-transformers/stsb:default", {pair_sentences, true, kPair}},
      {"sentence-transformers/stsb:positive", {pair_alike_sentences, true, kPair}},
      {"sentence-transformers/stsb:generate", {ask_likeness, false, kPair}},
      {"sentence-transformers/stsb:reg", {grade_likeness, false, kPair}},
      {"MTEB/scidocs-reranking", {rank_candidates, true, {"query", "positive", "negative"}}},
      {"MTEB/stackoverflowdupquestions-reranking", {rank_candidates, true, {"query", "positive", "negative"}}},
      {"zouxuhong/Countdown-Tasks-3to4", {ask_countdown, true, {"target", "nums"}}},
      {"LLM-Research/xlam-function-calling-60k:default", {call_functions, true, {"query", "answers", "tools"}}},
      {"LLM-Research/xlam-function-calling-60k:grpo", {act_by_function, true, {"query", "answers", "tools"}}},
      {"hjh0119/shareAI-Llama3-DPO-zh-en-emoji", {drop_selectors, false, {"answer_zh", "answer_en"}}},
      {"AI-ModelScope/function-calling-chatml", {split_functions, false, {"function_description"}}},
      {"AI-ModelScope/databricks-dolly-15k", {add_information, true, {"instruction", "context", "response"}}},
      {"AI-ModelScope/orpo-dpo-mix-40k", {is_not_toxic, false, {"source", "chosen", "rejected"}}},
      {"sapientinc/sudoku-extreme-1k", {ask_sudoku, true, {"question", "answer"}}},
      {"swift/gpt4v-dataset", {with_query("What is the caption of this image?")}},
      {"tany0699/garbage265", {with_query("Task: Classify household waste.")}},
      {"modelscope/coco_2014_caption", {caption, false, {"caption"}}},
      {"speech_asr/speech_asr_aishell1_trainsets", {transcribe, false, {"Text:LABEL"}}},
      {"swift/VideoChatGPT", {ask_about_video, false, {"video_name"}}},
      {"swift/TextCaps:default", {with_query("What is the caption of this image?")}},
      {"swift/TextCaps:emb", {embed_caption, true, {"reference_strs"}}},
      {"AI-ModelScope/coco", {detect_objects, false, {"objects"}}},
      {"AI-ModelScope/LaTeX_OCR", {with_query("Using LaTeX to perform OCR on the image.")}},
      {"AI-ModelScope/captcha-images", {with_query("recognize the content.")}},
      {"AI-ModelScope/clevr_cogen_a_train", {ask_for_number, false, {"problem"}}},
      {"clip-benchmark/wds_voc2007_multilabel", {list_classes, false, {"npy"}}},
      {"hiyouga/geometry3k", {keep_solution, false, {"answer"}}},
  };
  return list;
}

}  // namespace

KnownRows known_rows(const SwiftEntry& entry, const std::string& subset) {
  const auto& id = entry.ms_id.empty() ? entry.hf_id : entry.ms_id;
  for (const auto& key : {id + ":" + subset, id})
    if (const auto found = changes().find(key); found != changes().end()) return found->second;
  return {};
}

}  // namespace hone::data
