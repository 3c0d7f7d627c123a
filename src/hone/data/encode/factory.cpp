#include "hone/data/encode/factory.h"

#include <algorithm>

#include "hone/base/log.h"
#include "hone/base/strings/replace_all.h"
#include "hone/data/encode/truncate.h"

namespace hone::data {
namespace {

using text::FactoryTemplate;
using text::FormatError;
using text::TemplateSlot;
using text::TokenId;
using Kind = FactoryTemplate::Kind;

const text::ToolFormat* format_named(const std::string& name) {
  auto format = text::find_tool_format(name);
  if (!format)
    throw UserError(ExitCode::usage, "tool_format \"" + name + "\" is unknown",
                    fmt::format("known: {}", fmt::join(text::tool_format_names(), ", ")));
  return format;
}

// Consecutive calls form one turn with a list of calls; consecutive results form one result.
void merge_tool_messages(std::vector<Message>& messages) {
  std::vector<Message> out;
  for (auto& message : messages) {
    bool repeats = !out.empty() && out.back().role == message.role;
    if (repeats && message.role == "tool_call") {
      auto before = parse_json(out.back().content), next = parse_json(message.content);
      if (!before || !next) throw FormatError("a tool call is not JSON");
      Json list = before->is_array() ? *before : Json::array({*before});
      for (const auto& call : next->is_array() ? *next : Json::array({*next})) list.push_back(call);
      out.back().content = list.dump();
    } else if (repeats && message.role == "tool") {
      out.back().content += "\n</tool_response>\n<tool_response>\n" + message.content;
    } else {
      out.push_back(std::move(message));
    }
  }
  messages = std::move(out);
}

}  // namespace

FactoryEncoder::FactoryEncoder(EncodeConfig config, std::shared_ptr<const text::Tokenizer> tokenizer,
                               FactoryTemplate chat_template)
    : Encoder(std::move(config), std::move(tokenizer), chat_template.name), template_(std::move(chat_template)) {
  if (config_.train_on_prompt && template_.efficient_eos)
    throw UserError(ExitCode::usage, "template \"" + template_.name +
                                         "\" ends turns without an EOS token, so train_on_prompt cannot be used with it");
  if (!config_.tool_format.empty()) {
    template_.tools_format = template_.function_format = config_.tool_format;
    template_.function = template_.efficient_eos ? text::TemplateSlots{"{{content}}"}
                                                 : text::TemplateSlots{"{{content}}", TemplateSlot(TemplateSlot::Kind::eos)};
  }
  config_.tool_format = template_.function_format;
  tools_format_ = format_named(template_.tools_format);
  function_format_ = format_named(template_.function_format);
  if (config_.system) template_.default_system = *config_.system;

  auto eos = tokenizer_->special().eos;
  if (template_.replace_eos) {
    auto stop = tokenizer_->id_of(template_.stop_words.at(0));
    if (!stop)
      log::warning("template {} ends responses with {}, which is not in the vocabulary: the tokenizer's EOS is used instead",
                   template_.name, template_.stop_words[0]);
    else
      eos = stop;
  }
  if (!eos) eos = tokenizer_->id_of("<|endoftext|>");
  eos_ = eos.value_or(-1);
  empty_reasoning_ = tokens(template_.kind == Kind::reasoning_closing_tag ? template_.reasoning_close
                                                                          : template_.reasoning_open + template_.reasoning_close);
  turn_tokens_ = template_.stop_words;
}

FactoryEncoder::Dialogue FactoryEncoder::arrange(const Conversation& conversation) const {
  Dialogue dialogue{.tools = conversation.tools, .messages = conversation.messages};
  auto& messages = dialogue.messages;
  if (!messages.empty() && messages[0].role == "system") {
    dialogue.system = std::move(messages[0].content);
    messages.erase(messages.begin());
  }
  merge_tool_messages(messages);
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto& role = messages[i].role;
    bool fits = i % 2 == 0 ? role == "user" || role == "tool" : role == "assistant" || role == "tool_call";
    if (!fits)
      throw FormatError("message " + std::to_string(i) + " is from \"" + role +
                        "\"; turns must alternate between user and assistant");
  }
  return dialogue;
}

void FactoryEncoder::append(const text::TemplateSlots& pieces, const std::string& content, size_t round, Ids& ids) const {
  auto encode = [&](const std::string& text, bool guarded) {
    if (text.empty()) return;
    auto more = tokens(text, guarded);
    ids.insert(ids.end(), more.begin(), more.end());
  };
  for (const auto& piece : pieces) {
    switch (piece.kind) {
      case TemplateSlot::Kind::bos:
        if (tokenizer_->special().bos) ids.push_back(*tokenizer_->special().bos);
        break;
      case TemplateSlot::Kind::eos:
        if (eos_ >= 0) ids.push_back(eos_);
        break;
      case TemplateSlot::Kind::token:
      case TemplateSlot::Kind::id: {
        auto id = piece.kind == TemplateSlot::Kind::id ? std::optional(piece.id) : tokenizer_->id_of(piece.text);
        if (!id)
          throw FormatError("the vocabulary has no token \"" + piece.text + "\", which template \"" + template_.name +
                            "\" needs");
        ids.push_back(*id);
        break;
      }
      case TemplateSlot::Kind::text: {
        auto at = piece.text.find("{{content}}");
        auto text = piece.text;
        if (at == std::string::npos) {
          encode(text, false);
        } else if (config_.guard_special_tokens && spells_special_token(content)) {
          encode(text.substr(0, at), false);
          encode(content, true);
          encode(text.substr(at + 11), false);
        } else {
          text.replace(at, 11, content);
          if (auto index = piece.text.find("{{idx}}"); index != std::string::npos)
            text = replace_all(std::move(text), "{{idx}}", std::to_string(round));
          encode(text, false);
        }
      }
    }
  }
}

std::vector<FactoryEncoder::Ids> FactoryEncoder::encode_messages(const Dialogue& dialogue) const {
  auto system = dialogue.system.empty() ? template_.default_system : dialogue.system;
  if (!dialogue.tools.empty()) {
    auto tools = parse_json(dialogue.tools);
    if (!tools || !tools->is_array()) throw FormatError("\"tools\" is not a JSON list");
    if (!tools->empty()) system += tools_format_->describe(*tools);
  }
  std::vector<Ids> encoded;
  for (size_t i = 0; i < dialogue.messages.size(); ++i) {
    const auto& message = dialogue.messages[i];
    Ids ids;
    std::string lead;
    if (i == 0) {
      append(template_.prefix, "", 0, ids);
      bool shows_system = !system.empty() || !dialogue.tools.empty();
      if (shows_system && template_.kind == Kind::system_in_user)
        lead = replace_all(template_.system[0].text, "{{content}}", system);
      else if (shows_system)
        append(template_.system, system, 0, ids);
    }
    if (message.role == "user")
      append(template_.user, lead + message.content, i / 2, ids);
    else if (message.role == "tool")
      append(template_.observation, message.content, i / 2, ids);
    else if (message.role == "assistant")
      append(template_.assistant, message.content, i / 2, ids);
    else
      append(template_.function, text::format_function_turn(template_, *function_format_, message.content), i / 2, ids);
    encoded.push_back(std::move(ids));
  }
  return encoded;
}

Sample FactoryEncoder::encode_text(const std::string& text) const {
  auto ending = template_name_ == "llama3" ? tokenizer_->id_of("<|end_of_text|>") : std::optional(eos_);
  Sample sample;
  const auto& special = tokenizer_->special();
  if (!config_.concatenate_text && special.add_bos && special.bos) sample.ids.push_back(*special.bos);
  auto ids = tokens(text);
  sample.ids.insert(sample.ids.end(), ids.begin(), ids.end());
  if (ending && *ending >= 0) sample.ids.push_back(*ending);
  if (!config_.concatenate_text && config_.max_length > 0 && static_cast<int64_t>(sample.ids.size()) > config_.max_length)
    sample.ids.resize(static_cast<size_t>(config_.max_length));
  sample.labels = sample.ids;
  return sample;
}

Sample FactoryEncoder::join_turns(std::vector<std::pair<Ids, Ids>> turns, const std::vector<Message>& messages) const {
  int64_t used = template_.efficient_eos ? 1 : 0;
  const int64_t limit = length_limit();
  bool newest_first = config_.mask_history;
  std::vector<Sample> parts;
  for (size_t n = 0; n < turns.size() && used < limit; ++n) {
    size_t at = newest_first ? turns.size() - 1 - n : n;
    auto& [prompt, response] = turns[at];
    auto [prompt_length, response_length] =
        infer_seqlen(static_cast<int64_t>(prompt.size()), static_cast<int64_t>(response.size()), limit - used);
    prompt.resize(static_cast<size_t>(prompt_length));
    response.resize(static_cast<size_t>(response_length));
    used += prompt_length + response_length;
    Sample part{.ids = prompt, .labels = config_.train_on_prompt ? prompt : Ids(prompt.size(), kIgnore)};
    if (!config_.train_on_prompt && template_.efficient_eos && n != 0 && !prompt.empty()) part.labels[0] = eos_;
    bool masked = (config_.mask_history && n != 0) || messages[2 * at + 1].loss == false;
    part.ids.insert(part.ids.end(), response.begin(), response.end());
    if (masked)
      part.labels.insert(part.labels.end(), response.size(), kIgnore);
    else
      part.labels.insert(part.labels.end(), response.begin(), response.end());
    parts.push_back(std::move(part));
  }
  if (newest_first) std::reverse(parts.begin(), parts.end());
  Sample sample;
  for (const auto& part : parts) {
    sample.ids.insert(sample.ids.end(), part.ids.begin(), part.ids.end());
    sample.labels.insert(sample.labels.end(), part.labels.begin(), part.labels.end());
  }
  if (template_.efficient_eos) {
    sample.ids.push_back(eos_);
    sample.labels.push_back(eos_);
  }
  return sample;
}

Sample FactoryEncoder::labelled(const Ids& prompt, const Ids& response, int64_t prompt_length, int64_t response_length) const {
  auto response_end = response.begin() + std::min<ptrdiff_t>(response_length, static_cast<ptrdiff_t>(response.size()));
  Sample sample;
  sample.ids.assign(prompt.begin(), prompt.begin() + prompt_length);
  sample.labels.assign(static_cast<size_t>(prompt_length), kIgnore);
  sample.ids.insert(sample.ids.end(), response.begin(), response_end);
  sample.labels.insert(sample.labels.end(), response.begin(), response_end);
  return sample;
}

FactoryEncoder::Dialogue FactoryEncoder::arrange_answered(const Conversation& conversation) const {
  auto dialogue = arrange(conversation);
  if (dialogue.messages.empty() || dialogue.messages.size() % 2 == 1)
    throw FormatError("the conversation does not end with an assistant message");
  return dialogue;
}

FactoryEncoder::OneTurn FactoryEncoder::last_turn(const Conversation& conversation) const {
  auto turn = encode_last_turn(arrange_answered(conversation));
  if (template_.efficient_eos) turn.response.push_back(eos_);
  return turn;
}

Sample FactoryEncoder::encode_untruncated(const Conversation& conversation) const {
  if (conversation.messages.empty()) throw FormatError("the conversation has no messages");
  if (config_.pretraining || conversation.plain_text) return encode_text(conversation.messages[0].content);
  if (config_.train_last_turn_only) {
    const auto turn = last_turn(conversation);
    auto [prompt, response] =
        infer_seqlen(static_cast<int64_t>(turn.prompt.size()), static_cast<int64_t>(turn.response.size()), length_limit());
    return labelled(turn.prompt, turn.response, prompt, response);
  }
  auto dialogue = arrange_answered(conversation);
  auto messages = dialogue.messages;
  return join_turns(encode_turns(std::move(dialogue)), messages);
}

std::pair<Sample, Sample> FactoryEncoder::encode_untruncated_pair(const Conversation& conversation) const {
  const auto chosen = last_turn(conversation), rejected = last_turn(rejected_conversation(conversation));
  auto longer = static_cast<int64_t>(std::max(chosen.response.size(), rejected.response.size()));
  auto [prompt, response] = infer_seqlen(static_cast<int64_t>(chosen.prompt.size()), longer, length_limit());
  return {labelled(chosen.prompt, chosen.response, prompt, response),
          labelled(chosen.prompt, rejected.response, prompt, response)};
}

std::vector<TokenId> FactoryEncoder::encode_generation_prompt(const Conversation& conversation) const {
  auto dialogue = arrange(conversation);
  if (dialogue.messages.size() % 2 == 0) throw FormatError("the conversation does not end with a user message");
  dialogue.messages.push_back({.role = "assistant"});
  auto turn = encode_last_turn(std::move(dialogue));
  // With thinking on, the model itself opens the think block.
  return std::move(turn.prompt);
}

}  // namespace hone::data
