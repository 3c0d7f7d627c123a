#include "hone/data/encode/swift_turns.h"

#include "hone/base/strings/replace_all.h"
#include "hone/base/strings/trimmed.h"
#include "hone/data/encode/render_tools.h"

namespace hone::data {
namespace {

using text::FormatError;

const text::AgentFormat& needed(const text::AgentFormat* agent, const text::SwiftTemplate& chat_template) {
  if (!agent)
    throw FormatError("template \"" + chat_template.name + "\" has no agent format for tools; choose one with `agent_template`");
  return *agent;
}

void read_row_settings(const Json& extra, Turns& turns) {
  if (!extra.is_object() || !extra.contains("chat_template_kwargs")) return;
  const Json& settings = extra["chat_template_kwargs"];
  if (!settings.is_object()) return;
  auto flag = [&](const char* key) -> std::optional<bool> {
    return settings.contains(key) && settings[key].is_boolean() ? std::optional(settings[key].get<bool>()) : std::nullopt;
  };
  turns.enable_thinking = flag("enable_thinking");
  turns.preserve_thinking = flag("preserve_thinking");
  if (settings.contains("response_prefix") && settings["response_prefix"].is_string())
    turns.response_prefix = settings["response_prefix"].get<std::string>();
}

// As in Qwen 3.5's own template: trimmed messages, think blocks with canonical newlines.
void apply_qwen3_5_spacing(std::vector<Message>& messages) {
  for (auto& message : messages) {
    auto text = trimmed(message.content);
    auto close = text.find("</think>");
    if (message.role == "tool_call") continue;
    if (message.role == "assistant" && close != std::string::npos && text.find("<think>") != std::string::npos) {
      auto before = text.substr(0, close), after = text.substr(close + 8);
      if (auto open = before.rfind("<think>"); open != std::string::npos) before = before.substr(open + 7);
      text =
          "<think>\n" + trimmed(before) + "\n</think>\n\n" + after.substr(std::min(after.find_first_not_of('\n'), after.size()));
    }
    message.content = std::move(text);
  }
}

void write_calls(std::vector<Message>& messages, const text::SwiftTemplate& chat_template, const text::AgentFormat* agent) {
  std::vector<Message> out;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role != "tool_call") {
      out.push_back(std::move(messages[i]));
      continue;
    }
    Message merged{.role = "assistant"};
    std::vector<text::ToolCall> calls;
    for (;; ++i) {
      calls.push_back(text::parse_tool_call(messages[i].content));
      if (!merged.loss) merged.loss = messages[i].loss;
      if (!merged.loss_scale) merged.loss_scale = messages[i].loss_scale;
      if (i + 1 == messages.size() || messages[i + 1].role != "tool_call") break;
    }
    const auto& format = needed(agent, chat_template);
    const std::string* before = !out.empty() && out.back().role == "assistant" ? &out.back().content : nullptr;
    merged.content = format.call_separator(before) + format.render_tool_calls(calls);
    out.push_back(std::move(merged));
  }
  messages = std::move(out);
}

// Results that directly follow a user message become part of it.
void fold_standalone_results(std::vector<Message>& messages, const text::SwiftTemplate& chat_template,
                             const text::AgentFormat* agent) {
  std::vector<Message> out;
  for (size_t i = 0; i < messages.size(); ++i) {
    bool follows_response = i > 0 && (messages[i - 1].role == "assistant" || messages[i - 1].role == "tool");
    if (messages[i].role != "tool" || follows_response) {
      out.push_back(messages[i]);
      continue;
    }
    if (i == 0 || messages[i - 1].role != "user") throw FormatError("a tool result follows neither a call nor a user message");
    std::vector<std::string> results = {messages[i].content};
    while (i + 1 < messages.size() && messages[i + 1].role == "tool") results.push_back(messages[++i].content);
    out.back().content += needed(agent, chat_template).standalone_results(results, chat_template);
  }
  messages = std::move(out);
}

Turn turn_of(Message&& message) {
  if (message.role == "user") return {.role = Turn::Role::user, .text = std::move(message.content)};
  if (message.role != "assistant")
    throw FormatError("a message of role \"" + message.role + "\" is where only user, assistant or tool may be");
  return {.role = Turn::Role::assistant, .response = {{std::move(message.content), message.loss, message.loss_scale}}};
}

void merge_messages(std::vector<Message>&& messages, const text::SwiftTemplate& chat_template, const text::AgentFormat* agent,
                    std::vector<Turn>& turns) {
  using Role = Turn::Role;
  for (size_t i = 0; i < messages.size(); ++i) {
    Turn* before = turns.empty() ? nullptr : &turns.back();
    if (messages[i].role == "tool") {
      if (!before || before->role != Role::assistant) throw FormatError("a tool result does not follow an assistant message");
      std::vector<std::string> results = {messages[i].content};
      while (i + 1 < messages.size() && messages[i + 1].role == "tool") results.push_back(messages[++i].content);
      text::CallingResponse response{.editable = before->response.size() == 1 ? &before->response[0].text : nullptr};
      for (const auto& part : before->response) response.text += part.text;
      turns.push_back({.role = Role::tool, .results = needed(agent, chat_template).results(response, results, chat_template)});
      continue;
    }
    auto turn = turn_of(std::move(messages[i]));
    if (before && before->role == Role::assistant && turn.role == Role::assistant)
      before->response.push_back(std::move(turn.response[0]));
    else if (before && before->role == Role::user && turn.role == Role::user)
      before->text += turn.text;
    else
      turns.push_back(std::move(turn));
  }
}

// gpt-oss: the start of every conversation, and the default channel of a response.
void apply_harmony(Turns& turns) {
  std::string opening =
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\nCurrent "
      "date: " +
      text::today("%Y-%m-%d") +
      "\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. Channel must be included for every "
      "message.<|end|>";
  if (!turns.system)
    turns.system = opening;
  else if (!turns.system->starts_with("<|start|>"))
    turns.system = opening + "<|start|>developer<|message|># Instructions\n\n" + *turns.system + "<|end|>";
  for (auto& turn : turns.turns)
    if (turn.response.size() == 1 && !turn.response[0].text.starts_with("<|channel|>"))
      turn.response[0].text = "<|channel|>final<|message|>" + turn.response[0].text;
}

void apply_ernie_response(Turns& turns) {
  for (auto& turn : turns.turns) {
    if (turn.response.size() != 1) continue;
    auto& response = turn.response[0].text;
    if (response.find("<response>") != response.npos) continue;
    if (response.find("</think>") == response.npos) {
      response = "<response>\n" + response + "\n</response>\n";
      continue;
    }
    response = replace_all(response, "</think>", "</think>\n\n<response>\n") + "\n</response>";
    if (response.find("<think>\n") == response.npos) response = replace_all(response, "<think>", "<think>\n");
  }
}

}  // namespace

int64_t Turns::last_user() const {
  for (auto i = static_cast<int64_t>(turns.size()) - 1; i >= 0; --i)
    if (turns[static_cast<size_t>(i)].role != Turn::Role::assistant) return i;
  return -1;
}

Turns make_turns(const Conversation& conversation, const text::SwiftTemplate& chat_template, const text::AgentFormat* agent) {
  Turns turns;
  auto messages = conversation.messages;
  if (conversation.plain_text && !messages.empty()) messages[0].role = "assistant";
  if (!messages.empty() && messages[0].role == "system") {
    turns.system = std::move(messages[0].content);
    messages.erase(messages.begin());
  }
  if (messages.empty()) throw FormatError("the conversation has no messages");
  turns.tools = parse_tools(conversation.tools);
  if (!turns.tools.empty()) needed(agent, chat_template);
  read_row_settings(conversation.extra, turns);
  if (chat_template.quirk == text::SwiftTemplate::Quirk::qwen3_5_spacing) {
    if (turns.system) turns.system = trimmed(*turns.system);
    apply_qwen3_5_spacing(messages);
  }
  write_calls(messages, chat_template, agent);
  fold_standalone_results(messages, chat_template, agent);
  merge_messages(std::move(messages), chat_template, agent, turns.turns);
  if (chat_template.quirk == text::SwiftTemplate::Quirk::harmony) apply_harmony(turns);
  if (chat_template.quirk == text::SwiftTemplate::Quirk::ernie_response) apply_ernie_response(turns);
  return turns;
}

}  // namespace hone::data
