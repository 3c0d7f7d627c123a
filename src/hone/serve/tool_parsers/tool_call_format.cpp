#include "hone/serve/tool_parsers/tool_call_format.h"

#include <algorithm>

#include "hone/base/strings/trimmed.h"
#include "hone/data/formats/python_literal.h"
#include "hone/serve/tool_parsers/json_tool_parser.h"
#include "hone/serve/tool_parsers/named_call.h"
#include "hone/serve/tool_parsers/tagged_call.h"
#include "hone/serve/tool_parsers/tool_call_parser.h"

namespace hone::serve {
namespace {

// A call written as in Python: name(key=value, …).
class PythonCall : public ToolCallParser {
 private:
  void step(char c) override;
  void end_argument();

  std::string word_;  // the name, or one argument
  bool inside_ = false;
  Nesting nesting_{"'\""};
  Json given_ = Json::object();
};

void PythonCall::end_argument() {
  auto argument = trimmed(std::exchange(word_, {}));
  if (argument.empty()) return;
  auto equals = argument.find('=');
  auto key = trimmed(std::string_view(argument).substr(0, equals));
  if (equals == argument.npos || key.empty() || !std::ranges::all_of(key, is_name_character)) return fail();
  auto value = data::parse_value_text(trimmed(std::string_view(argument).substr(equals + 1)));
  if (!value) return fail();
  given_[key] = std::move(*value);
}

void PythonCall::step(char c) {
  if (!inside_) {
    if (c == '(' && !word_.empty()) {
      name_ = std::exchange(word_, {});
      inside_ = true;
    } else if (is_name_character(c) && word_.size() < 64) {
      word_ += c;
    } else if (!is_blank(c) || !word_.empty()) {
      fail();
    }
    return;
  }
  bool ends_call = c == ')' && nesting_.outside();
  if (!ends_call && !(c == ',' && nesting_.outside())) {
    nesting_.push(c);
    word_ += c;
    return;
  }
  end_argument();
  if (!ends_call || state_ == State::bad) return;
  arguments_ = given_.dump(-1, ' ', false, Json::error_handler_t::replace);
  begun_ = true;
  finish();
}

constexpr std::string_view kDeepSeekCalls = "<｜tool▁calls▁begin｜>", kDeepSeekCall = "<｜tool▁call▁begin｜>",
                           kDeepSeekSep = "<｜tool▁sep｜>", kDeepSeekEnd = "<｜tool▁calls▁end｜>",
                           kDeepSeekKind = "function<｜tool▁sep｜>";

template <const NamedForm& form>
std::unique_ptr<ToolCallParser> named_reader(const ToolSchemas& known) {
  return std::make_unique<NamedCall>(form, known);
}

template <const TagForm& form>
std::unique_ptr<ToolCallParser> tagged_reader(const ToolSchemas& known) {
  return std::make_unique<TaggedCall>(form, known);
}

constexpr NamedForm kActionForm{.between = "Action Input:"}, kQwenForm{.between = "✿ARGS✿:"},
    kLineForm{.needs_between = false, .own_line = true, .only_known = true}, kFencedForm{.needs_between = false},
    kMistralForm{.between = "[ARGS]", .needs_between = false},
    kDeepSeekForm{.lead = kDeepSeekKind, .between = kDeepSeekSep, .needs_between = false};
constexpr TagForm kFunctionTags{">\n", "<parameter=", ">", "", "</parameter>", "</function>"},
    kInvokeTags{"\"", "<parameter name=\"", "\">", "", "</parameter>", "</invoke>"},
    kArgTags{"\n<", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>", false};

// Made at first use, on any thread.
const std::vector<ToolCallFormat>& forms() {
  static const std::vector<ToolCallFormat> kForms = {
      {.name = "hermes", .opens = {"<tool_call>"}, .objects = true, .close = "</tool_call>", .forced_lead = "<tool_call>\n"},
      {.name = "hunyuan_hermes",
       .opens = {"<tool_calls>", "<tool_call>"},
       .objects = true,
       .next = "<tool_call>",
       .close = "</tool_calls>",
       .reader = named_reader<kFencedForm>,
       .forced_lead = "<tool_calls>\n<tool_call>\n"},
      {.name = "llama3", .opens = {"<|python_tag|>"}, .bare = true, .objects = true, .object_key = "parameters"},
      {.name = "mistral",
       .opens = {"[TOOL_CALLS]"},
       .bare = true,
       .objects = true,
       .reader = named_reader<kMistralForm>,
       .forced_lead = "[TOOL_CALLS] ["},
      {.name = "minimax1", .opens = {"<tool_calls>"}, .objects = true, .close = "</tool_calls>", .forced_lead = "<tool_calls>\n"},
      {.name = "react",
       .opens = {"Action:"},
       .result = "Observation:",
       .reader = named_reader<kActionForm>,
       .forced_lead = "Action:",
       .forced = {.before_arguments = "\nAction Input: "}},
      {.name = "qwen_words",
       .opens = {"✿FUNCTION✿:"},
       .result = "✿RESULT✿",
       .reader = named_reader<kQwenForm>,
       .forced_lead = "✿FUNCTION✿:",
       .forced = {.before_arguments = "\n✿ARGS✿: "}},
      {.name = "glm4",
       .opens = {"<|assistant|>"},
       .bare = true,
       .result = "<|observation|>",
       .reader = named_reader<kLineForm>,
       .forced = {.before_arguments = "\n"}},
      {.name = "deepseek_v3",
       .opens = {kDeepSeekCalls, kDeepSeekCall},
       .next = kDeepSeekCall,
       .close = kDeepSeekEnd,
       .reader = named_reader<kDeepSeekForm>,
       .forced_lead = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>",
       .forced = {.before_arguments = "\n```json\n"}},
      {.name = "deepseek_v3_1",
       .opens = {kDeepSeekCalls, kDeepSeekCall},
       .next = kDeepSeekCall,
       .close = kDeepSeekEnd,
       .reader = named_reader<kDeepSeekForm>,
       .forced_lead = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
       .forced = {.before_arguments = kDeepSeekSep}},
      {.name = "qwen3_coder",
       .opens = {"<tool_call>"},
       .objects = true,
       .next = "<function=",
       .needs_next = true,
       .close = "</tool_call>",
       .reader = tagged_reader<kFunctionTags>,
       .forced_lead = "<tool_call>\n<function=",
       .forced = {">\n", "<parameter=", ">\n", "\n</parameter>\n", "</function>"}},
      {.name = "seed_oss",
       .opens = {"<seed:tool_call>"},
       .next = "<function=",
       .needs_next = true,
       .close = "</seed:tool_call>",
       .reader = tagged_reader<kFunctionTags>,
       .forced_lead = "<seed:tool_call>\n<function=",
       .forced = {">\n", "<parameter=", ">", "</parameter>\n", "</function>"}},
      {.name = "minimax2",
       .opens = {"<minimax:tool_call>", "<invoke name=\""},
       .next = "<invoke name=\"",
       .close = "</minimax:tool_call>",
       .reader = tagged_reader<kInvokeTags>,
       .forced_lead = "<minimax:tool_call>\n<invoke name=\"",
       .forced = {"\">\n", "<parameter name=\"", "\">", "</parameter>\n", "</invoke>"}},
      {.name = "glm4_5",
       .opens = {"<tool_call>"},
       .reader = tagged_reader<kArgTags>,
       .forced_lead = "<tool_call>",
       .forced = {"\n", "<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n", "</tool_call>"}},
      {.name = "glm4_7",
       .opens = {"<tool_call>"},
       .reader = tagged_reader<kArgTags>,
       .forced_lead = "<tool_call>",
       .forced = {"", "<arg_key>", "</arg_key><arg_value>", "</arg_value>", "</tool_call>"}},
      {.name = "lfm2",
       .opens = {"<|tool_call_start|>"},
       .next = ",",
       .close = "<|tool_call_end|>",
       .reader = [](const ToolSchemas&) -> std::unique_ptr<ToolCallParser> { return std::make_unique<PythonCall>(); },
       .forced_lead = "<|tool_call_start|>[",
       .forced = {.before_arguments = "(", .key_close = "=", .value_close = ", ", .end = ")", .python = true}},
  };
  return kForms;
}

struct Alias {
  std::string_view name, form;
};
constexpr Alias kOtherNames[] = {
    {"qwen", "hermes"},
    {"ling", "hermes"},
    {"llama4", "llama3"},
    {"react_en", "react"},
    {"react_zh", "react"},
    {"react_grpo", "react"},
    {"default", "react"},
    {"phi4_mini", "react"},
    {"qwen_en", "qwen_words"},
    {"qwen_zh", "qwen_words"},
    {"qwen_en_parallel", "qwen_words"},
    {"qwen_zh_parallel", "qwen_words"},
    {"chatglm4", "glm4"},
    {"glm4_moe", "glm4_5"},
    {"glm5_1", "glm4_7"},
    {"qwen3_5", "qwen3_coder"},
};

// Markers in a template; the first match decides, so those that contain others come first.
constexpr Alias kTemplateWords[] = {
    {"<minimax:tool_call>", "minimax2"}, {"<seed:tool_call>", "seed_oss"}, {"<arg_key>", "glm4_5"},
    {"<function=", "qwen3_coder"},       {"```json", "deepseek_v3"},       {kDeepSeekSep, "deepseek_v3_1"},
    {"[TOOL_CALLS]", "mistral"},         {"<|tool_call_start|>", "lfm2"},  {"<|python_tag|>", "llama3"},
    {"✿FUNCTION✿", "qwen_words"},        {"Action Input:", "react"},
};

}  // namespace

const ToolCallFormat* find_call_syntax(std::string_view name) {
  auto other = std::ranges::find(kOtherNames, name, &Alias::name);
  auto form = std::ranges::find(forms(), other == std::end(kOtherNames) ? name : other->form, &ToolCallFormat::name);
  return form == forms().end() ? nullptr : &*form;
}

const ToolCallFormat& call_syntax_in(std::string_view chat_template) {
  bool deepseek = chat_template.find(kDeepSeekSep) != chat_template.npos;
  for (const auto& [words, form] : kTemplateWords)
    if (chat_template.find(words) != chat_template.npos && (form != "deepseek_v3" || deepseek)) return *find_call_syntax(form);
  return *find_call_syntax("hermes");
}

std::unique_ptr<ToolCallParser> json_call_reader() { return std::make_unique<JsonToolParser>(); }

}  // namespace hone::serve
