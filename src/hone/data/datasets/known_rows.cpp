// The rows that ms-swift makes of known datasets: questions it adds, text it cuts, pairs it builds.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "hone/data/datasets/known_datasets.h"
#include "hone/text/templates/python_json.h"

namespace hone::data {
namespace {

using Names = std::initializer_list<const char*>;
using Change = std::function<bool(Json&, const RowOrigin&)>;

// The first of the columns with a value.
const Json* find_column(const Json& fields, Names names) {
  for (const auto* name : names)
    if (auto found = fields.find(name); found != fields.end() && !found->is_null()) return &*found;
  return nullptr;
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }
std::string text_of(const Json& fields, Names names) {
  const auto* value = find_column(fields, names);
  return value ? text_of(*value) : "";
}

std::string each_replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += by.size()) text.replace(at, what.size(), by);
  return text;
}

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

// `text` with {name} replaced by the columns' values.
std::string filled(std::string text, const Json& fields, Names names) {
  for (const auto* name : names) text = each_replaced(std::move(text), fmt::format("{{{}}}", name), text_of(fields, {name}));
  return text;
}

Json parsed_or(const std::string& text, Json otherwise) {
  auto parsed = parse_json(text);
  return parsed ? std::move(parsed).value() : otherwise;
}

Json message(const char* role, std::string text) { return {{"role", role}, {"content", std::move(text)}}; }

Change with_query(std::string query) {
  return [query = std::move(query)](Json& fields, const RowOrigin&) { return fields["query"] = query, true; };
}

// A question in which `columns` are filled, as the column `target`.
Change with_filled(std::string target, std::string question, Names names) {
  return [target = std::move(target), question = std::move(question), columns = std::vector<const char*>(names)](
             Json& fields, const RowOrigin&) {
    auto text = question;
    for (const auto* name : columns) text = each_replaced(std::move(text), fmt::format("{{{}}}", name), text_of(fields, {name}));
    fields[target] = std::move(text);
    return true;
  };
}

// A classification as text: the label's word is the response.
Change with_classes(std::string query, Names columns, std::vector<std::string> classes) {
  auto ask = with_filled("query", std::move(query), columns);
  return [ask, classes = std::move(classes)](Json& fields, const RowOrigin& origin) {
    const auto* label = find_column(fields, {"label"});
    if (!label) return false;
    const auto text = text_of(*label);  // a number, in CSV files as text
    char* end = nullptr;
    const auto index = std::lround(std::strtod(text.c_str(), &end));
    if (end == text.c_str()) return false;
    if (index < 0 || static_cast<size_t>(index) >= classes.size()) return false;
    ask(fields, origin);
    fields["response"] = classes[static_cast<size_t>(index)];
    fields.erase("label");
    return true;
  };
}

bool strip_input_mark(Json& fields, const RowOrigin&) {
  constexpr std::string_view kMark = "输入：";
  if (auto input = text_of(fields, {"input"}); input.starts_with(kMark)) fields["input"] = input.substr(kMark.size());
  return true;
}

bool strip_answer_mark(Json& fields, const RowOrigin&) {
  constexpr std::string_view kMark = "Answer: ";
  for (const char* name : {"output", "response"})
    if (auto text = text_of(fields, {name}); text.starts_with(kMark)) fields[name] = trimmed(text.substr(kMark.size()));
  return true;
}

// Titles of a forum, numbered in some files: "12. title".
bool join_title(Json& fields, const RowOrigin&) {
  auto title = text_of(fields, {"title", "content", "response"});
  if (auto more = text_of(fields, {"abs"}); !more.empty() && more != title) title += "，" + more;
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
  fields = Json{{"messages", Json::array({message("assistant", title)})}};
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
  fields = Json{{"messages", Json::array({message("user", text_of(fields, {"sentence1"}))})},
                {"positive_messages", Json::array({Json::array({message("user", text_of(fields, {"sentence2"}))})})},
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
    list.push_back(Json::array({message(role, text_of(text))}));
  return list;
}

bool rank_candidates(Json& fields, const RowOrigin&) {
  fields = Json{{"messages", Json::array({message("user", text_of(fields, {"query"}))})},
                {"positive_messages", candidates(fields, "positive", "assistant")},
                {"negative_messages", candidates(fields, "negative", "assistant")}};
  return true;
}

bool ask_countdown(Json& fields, const RowOrigin&) {
  const auto target = text_of(fields, {"target"});
  std::string numbers;
  if (const auto* list = find_column(fields, {"nums"}); list && list->is_array())
    for (const auto& number : *list) numbers += (numbers.empty() ? "" : ", ") + text_of(number);
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
  Json messages = Json::array({message("user", text_of(fields, {"query"}))});
  for (const auto& call : listed_calls(fields)) messages.push_back(message("tool_call", text::python_dumps(call)));
  fields = Json{{"messages", std::move(messages)}, {"tools", fields.value("tools", Json())}};
  return true;
}

// The row's first call is the answer; ms-swift draws one.
bool act_by_function(Json& fields, const RowOrigin&) {
  const auto calls = listed_calls(fields);
  if (calls.empty() || !calls.front().is_object()) return false;
  const auto& call = calls.front();
  const auto text = fmt::format("Action: {}\nAction Input: {}", text_of(call.value("name", Json(""))),
                                text::python_dumps(call.value("arguments", Json::object())));
  fields = Json{
      {"query", text_of(fields, {"query"})}, {"response", text}, {"solution", text}, {"tools", fields.value("tools", Json())}};
  return true;
}

// Variation selectors, which the rows are full of.
bool drop_selectors(Json& fields, const RowOrigin&) {
  for (const char* name : {"question", "prompt", "query", "answer_zh", "answer_en"})
    if (find_column(fields, {name})) fields[name] = each_replaced(text_of(fields, {name}), "\xEF\xB8\x8F", "");
  return true;
}

bool split_functions(Json& fields, const RowOrigin&) {
  if (auto text = text_of(fields, {"function_description"}); !text.empty()) {
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
  const auto question = text_of(fields, {"instruction"}), context = text_of(fields, {"context"});
  fields["query"] = context.empty() ? question : fmt::format("Here gives some useful information:\n{}\n{}", context, question);
  return true;
}

bool is_not_toxic(Json& fields, const RowOrigin&) { return text_of(fields, {"source"}) != "toxic-dpo-v0.2"; }

std::string in_lines_of_nine(const std::string& cells) {
  std::string grid;
  for (size_t begin = 0; begin < cells.size(); begin += 9) grid += (begin ? "\n" : "") + cells.substr(begin, 9);
  return grid;
}

bool ask_sudoku(Json& fields, const RowOrigin&) {
  const auto puzzle = in_lines_of_nine(each_replaced(text_of(fields, {"question"}), ".", "0"));
  fields["query"] =
      "Solve the following 9x9 Sudoku puzzle. Empty cells are marked with '0'. "
      "Provide the completed grid as your answer.\n\nPuzzle:\n" +
      puzzle;
  fields["response"] = in_lines_of_nine(text_of(fields, {"answer"}));
  return true;
}

bool caption(Json& fields, const RowOrigin&) {
  const auto text = text_of(fields, {"caption"});
  fields["query"] = "please describe the image.";
  fields["response"] = text.substr(0, text.find("&&"));
  return true;
}

bool transcribe(Json& fields, const RowOrigin&) {
  fields["query"] = "语音转文本";
  fields["response"] = each_replaced(text_of(fields, {"Text:LABEL"}), " ", "");
  return true;
}

// The videos lie unpacked in the dataset's folder.
bool ask_about_video(Json& fields, const RowOrigin& origin) {
  const auto file = text_of(fields, {"video_name"}) + ".mp4";
  auto folder = std::filesystem::path(origin.file).parent_path();
  for (int level = 0; level < 3; ++level, folder = folder.parent_path())
    for (const auto& place : {folder / "Test_Videos" / file, folder / "videos" / file})
      if (std::error_code ignored; std::filesystem::exists(place, ignored)) fields["videos"] = place.string();
  if (!find_column(fields, {"videos"})) fields["videos"] = "Test_Videos/" + file;
  for (const char* name : {"question", "question_1", "question_2"})
    if (auto question = text_of(fields, {name}); !question.empty() && question != "None")
      return fields["question"] = question, true;
  return false;
}

bool embed_caption(Json& fields, const RowOrigin&) {
  const auto* texts = find_column(fields, {"reference_strs"});
  const Json first = texts && texts->is_array() && !texts->empty() ? texts->front() : texts ? *texts : Json("");
  fields = Json{{"messages", Json::array({message("user", "<image>")})},
                {"positive_messages", Json::array({Json::array({message("user", text_of(first))})})},
                {"images", fields.value("image", Json())}};
  return true;
}

constexpr const char* kCocoNames[] = {
    "person",         "bicycle",    "car",           "motorcycle",    "airplane",     "bus",           "train",
    "truck",          "boat",       "traffic light", "fire hydrant",  "stop sign",    "parking meter", "bench",
    "bird",           "cat",        "dog",           "horse",         "sheep",        "cow",           "elephant",
    "bear",           "zebra",      "giraffe",       "backpack",      "umbrella",     "handbag",       "tie",
    "suitcase",       "frisbee",    "skis",          "snowboard",     "sports ball",  "kite",          "baseball bat",
    "baseball glove", "skateboard", "surfboard",     "tennis racket", "bottle",       "wine glass",    "cup",
    "fork",           "knife",      "spoon",         "bowl",          "banana",       "apple",         "sandwich",
    "orange",         "broccoli",   "carrot",        "hot dog",       "pizza",        "donut",         "cake",
    "chair",          "couch",      "potted plant",  "bed",           "dining table", "toilet",        "tv",
    "laptop",         "mouse",      "remote",        "keyboard",      "cell phone",   "microwave",     "oven",
    "toaster",        "sink",       "refrigerator",  "book",          "clock",        "vase",          "scissors",
    "teddy bear",     "hair drier", "toothbrush"};

bool detect_objects(Json& fields, const RowOrigin&) {
  const auto* objects = find_column(fields, {"objects"});
  if (!objects || !objects->is_object()) return false;
  Json names = Json::array();
  std::string response;
  for (const auto& category : objects->value("category", Json::array())) {
    const auto index = category.is_number_integer() ? category.get<int64_t>() : -1;
    if (index < 0 || index >= static_cast<int64_t>(std::size(kCocoNames))) return false;
    names.push_back(kCocoNames[index]);
    response += response.empty() ? "<ref-object><bbox>" : "\n<ref-object><bbox>";
  }
  fields["objects"] = Json{{"ref", std::move(names)}, {"bbox", objects->value("bbox", Json::array())}};
  fields["query"] = "Task: Object Detection";
  fields["response"] = std::move(response);
  return true;
}

bool ask_for_number(Json& fields, const RowOrigin&) {
  const char* name = find_column(fields, {"problem"}) ? "problem" : "query";
  fields[name] = text_of(fields, {name}) +
                 " Output the thinking process in <think> </think> and final answer (number) in <answer> </answer> tags.";
  return true;
}

bool list_classes(Json& fields, const RowOrigin&) {
  Json present = Json::array();
  if (const auto* marks = find_column(fields, {"npy"}); marks && marks->is_array())
    for (size_t i = 0; i < marks->size(); ++i)
      if ((*marks)[i] == 1) present.push_back(i);
  fields["label"] = std::move(present);
  fields["query"] =
      "多标签分类，类别包括：['aeroplane', 'bicycle', 'bird', 'boat', 'bottle', 'bus', 'car', 'cat', 'chair', 'cow', "
      "'diningtable', "
      "'dog', 'horse', 'motorbike', 'person', 'pottedplant', 'sheep', 'sofa', 'train', 'tvmonitor']";
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
