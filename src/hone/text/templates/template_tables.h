// The named templates of ms-swift ("swift" dialect) and
// LLaMA-Factory ("factory" dialect): the text around each turn.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hone::text {

// One slot of a template: text with placeholders, or a token given by role, name or id. Slots are tokenized separately if the
// dialect does so.
struct TemplateSlot {
  enum class Kind { text, bos, eos, token, id };
  Kind kind = Kind::text;
  std::string text;  // text, or the token's name
  int id = 0;

  TemplateSlot(const char* text) : text(text) {}
  TemplateSlot(std::string text) : text(std::move(text)) {}
  TemplateSlot(Kind kind, std::string text = {}, int id = 0) : kind(kind), text(std::move(text)), id(id) {}
};
using TemplateSlots = std::vector<TemplateSlot>;

// ms-swift: {{SYSTEM}}, {{QUERY}}, {{ROUND0}}, {{ROUND1}} are replaced by their values.
struct SwiftTemplate {
  // Special behavior of a few families beyond filling slots.
  enum class Quirk {
    none,
    glm_newline,             // no newline after the last <|assistant|> when generation or a tool call follows
    gemma_system,            // the system text is folded into the first user turn
    hunyuan_answer,          // history keeps what is inside <answer>
    qwen3_5_spacing,         // messages trimmed, think blocks re-wrapped
    harmony,                 // gpt-oss: a fixed opening, the system text as the developer's, answers in a channel
    ernie_response,          // what follows the reasoning of a response is inside <response>
    embedded_text,           // the system text precedes the text, which is always closed
    question_and_candidate,  // a reranker's: both in one turn, under a task that the system text may name
    seed_budget,             // the system text has the limit of the reasoning
    youtu_thoughts,          // thinking is switched off for the last response alone, wherever it is
  };

  // The family's form of the system prompt: {{SYSTEM}} is the conversation's own.
  struct SystemForm {
    std::string filled, empty;  // with and without text of the conversation's own
    std::string unless;         // not added to text that contains this
  };

  std::string name;
  TemplateSlots prefix;                        // opens a conversation without system text
  std::optional<TemplateSlots> system_prefix;  // opens one with it; absent: the template has no system text
  TemplateSlots prompt;                        // a user turn up to where the response begins
  bool system_in_prompt = false;               // `prompt` holds {{SYSTEM}}: pieces with it appear in the last turn only
  std::optional<TemplateSlots> chat_sep = TemplateSlots{};  // between rounds; absent: only the last round is used
  TemplateSlots suffix = {TemplateSlot(TemplateSlot::Kind::eos)};
  std::optional<std::string> default_system;
  bool auto_add_bos = false;
  std::vector<std::string> stop_words;
  std::string agent;  // format of tools, empty when none is known
  bool thinking = false;
  std::optional<bool> thinking_by_default;                  // unset: when it cannot do otherwise
  std::optional<SystemForm> thinking_system, plain_system;  // of a conversation whose responses think, and of others
  std::string reasoning_open = "<think>", reasoning_close = "</think>";
  std::string thinking_prefix, non_thinking_prefix, history_thinking_prefix;
  std::optional<bool> preserve_thinking;
  bool non_thinking_after_user_only = false;
  Quirk quirk = Quirk::none;
};

// LLaMA-Factory: {{content}} is the turn's text, {{idx}} its round.
struct FactoryTemplate {
  enum class Kind { plain, system_in_user, reasoning, reasoning_closing_tag };

  std::string name;
  TemplateSlots user, assistant, system, function, observation, prefix;
  std::string function_format = "default", tools_format = "default";
  std::string default_system;
  std::vector<std::string> stop_words;
  std::string reasoning_open = "<think>\n", reasoning_close = "\n</think>\n\n";
  std::string call_open = "<tool_call>", call_close = "</tool_call>";
  bool efficient_eos = false;
  bool replace_eos = false;
  Kind kind = Kind::plain;
};

// Null for an unknown name. Dates in templates are today's.
const SwiftTemplate* find_swift_template(std::string_view name);
const FactoryTemplate* find_factory_template(std::string_view name);
std::vector<std::string> swift_template_names();
std::vector<std::string> factory_template_names();

std::string today(const char* strftime_format);

}  // namespace hone::text
