#include "hone/data/encode/jinja/jinja.h"

#include <algorithm>

#include "hone/data/encode/loss_scale.h"
#include "hone/data/encode/render_tools.h"

namespace hone::data {
namespace {

using text::FormatError;
using text::TokenId;

const Json kNoParameters = {{"type", "object"}, {"properties", Json::object()}};

std::string token_text(const text::Tokenizer& tokenizer, const std::optional<TokenId>& id) {
  return id ? tokenizer.token_of(*id) : "";
}

// Calls become an assistant message's tool_calls, as templates expect.
void append_message(const Message& message, Json& messages) {
  if (message.role != "tool_call") {
    Json entry = {{"role", message.role}, {"content", message.content}};
    if (message.extra.is_object())
      for (const auto& [key, value] : message.extra.items())
        if (!entry.contains(key)) entry[key] = value;
    messages.push_back(std::move(entry));
    return;
  }
  auto call = text::parse_tool_call(message.content);
  bool joins = !messages.empty() && messages.back()["role"] == "assistant";
  if (!joins) messages.push_back({{"role", "assistant"}, {"content", ""}});
  Json& calls = messages.back()["tool_calls"];
  if (calls.is_null()) calls = Json::array();
  calls.push_back({{"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
}

}  // namespace

Json template_variables(const text::Tokenizer& tokenizer, Json messages, Json tools, bool add_generation_prompt) {
  Json variables = {{"messages", std::move(messages)},
                    {"tools", std::move(tools)},
                    {"documents", nullptr},
                    {"add_generation_prompt", add_generation_prompt}};
  const auto& special = tokenizer.special();
  if (special.bos) variables["bos_token"] = token_text(tokenizer, special.bos);
  if (special.eos) variables["eos_token"] = token_text(tokenizer, special.eos);
  if (special.pad) variables["pad_token"] = token_text(tokenizer, special.pad);
  if (special.unk) variables["unk_token"] = token_text(tokenizer, special.unk);
  return variables;
}

// The model's own template trains on full responses, so only the base part of loss_scale applies.
static EncodeConfig read_loss_scale(EncodeConfig config) {
  LossScale scale(config.loss_scale);
  if (scale.base() == LossScale::Base::all) config.train_on_prompt = true;
  if (scale.has_names())
    throw UserError(ExitCode::usage, "loss_scale \"" + config.loss_scale + "\" does not go with the model's own chat template",
                    "name a built-in one with `template`, or use default, last_round or all");
  return config;
}

JinjaEncoder::JinjaEncoder(EncodeConfig config, std::shared_ptr<const text::Tokenizer> tokenizer,
                           text::ChatTemplate chat_template)
    : Encoder(read_loss_scale(std::move(config)), std::move(tokenizer), "jinja"), template_(std::move(chat_template)) {
  turn_tokens_ = stop_words();
  if (config_.guard_special_tokens)
    for (size_t id = 0; id < tokenizer_->size(); ++id)
      if (auto token = static_cast<TokenId>(id); tokenizer_->is_special(token))
        special_texts_.push_back(tokenizer_->token_of(token));
  std::erase(special_texts_, "");
  choose_tool_form();
}

Result<text::Rendered> JinjaEncoder::render_probe(const Json& messages, const Json& tools) const {
  return template_.render(template_variables(*tokenizer_, messages, tools, true));
}

// A template without tool support would silently drop tools. Its rendering shows whether it has support.
void JinjaEncoder::choose_tool_form() {
  const Json question = Json::array({{{"role", "user"}, {"content", "a question"}}});
  const Json instructed = Json::array({{{"role", "system"}, {"content", "an instruction"}}, question[0]});
  const Json tool = {{"type", "function"},
                     {"function", {{"name", "look_up"}, {"description", "Looks up."}, {"parameters", kNoParameters}}}};
  auto plain = render_probe(question, nullptr), guided = render_probe(instructed, nullptr);
  takes_system_ = guided && guided->text.find("an instruction") != std::string::npos;
  bool named = config_.dialect != Dialect::factory && !config_.tool_format.empty();
  auto shows = [&](const Result<text::Rendered>& without, const Json& messages) {
    auto with = render_probe(messages, Json::array({tool}));
    return with && without && with->text != without->text;
  };
  if (!named && (!plain || shows(plain, question) || shows(guided, instructed))) return;
  auto writes = [&](const char* words) { return plain && plain->text.find(words) != std::string::npos; };
  if (!named) config_.tool_format = writes("<|start_header_id|>") ? "llama3" : writes("<|header_start|>") ? "llama4" : "hermes";
  agent_ = agent_format_of(config_, "");
}

std::vector<std::string> JinjaEncoder::stop_words() const {
  auto eos = token_text(*tokenizer_, tokenizer_->special().eos);
  return eos.empty() ? std::vector<std::string>{} : std::vector{eos};
}

JinjaEncoder::Prepared JinjaEncoder::prepare(const Conversation& conversation) const {
  Prepared prepared{.messages = Json::array()};
  auto messages = conversation.messages;
  if (messages.empty()) throw FormatError("the conversation has no messages");
  if (config_.system && messages[0].role != "system")
    messages.insert(messages.begin(), {.role = "system", .content = *config_.system});
  if (agent_) messages = render_tools(messages, parse_tools(conversation.tools), *agent_, takes_system_);
  for (const auto& message : messages) {
    append_message(message, prepared.messages);
    prepared.loss.resize(prepared.messages.size());
    if (message.loss) prepared.loss.back() = message.loss;
  }
  if (!conversation.tools.empty() && !agent_) {
    auto tools = parse_json(conversation.tools);
    if (!tools) throw FormatError("\"tools\" is not JSON: " + tools.error());
    prepared.tools = *tools;
  }
  if (config_.enable_thinking) prepared.variables["enable_thinking"] = *config_.enable_thinking;
  if (config_.preserve_thinking) prepared.variables["preserve_thinking"] = *config_.preserve_thinking;
  if (conversation.extra.is_object())
    if (auto row = conversation.extra.value("chat_template_kwargs", Json()); row.is_object())
      for (const auto& [key, value] : row.items()) prepared.variables[key] = value;
  return prepared;
}

text::Rendered JinjaEncoder::render(const Prepared& prepared, const Json& messages, bool open) const {
  auto variables = template_variables(*tokenizer_, messages, prepared.tools, open);
  if (prepared.variables.is_object())
    for (const auto& [key, value] : prepared.variables.items()) variables[key] = value;
  auto rendered = template_.render(variables);
  if (!rendered) throw FormatError("the model's chat template rejects the conversation: " + rendered.error());
  return std::move(*rendered);
}

Sample JinjaEncoder::tokenize(const std::string& text, const std::vector<Span>& spans, const Prepared& prepared) const {
  Sample sample;
  size_t at = 0;
  auto add = [&](size_t end, bool learn) {
    if (end <= at) return;
    auto ids = guarded_tokens(text.substr(at, end - at));
    sample.ids.insert(sample.ids.end(), ids.begin(), ids.end());
    if (learn)
      sample.labels.insert(sample.labels.end(), ids.begin(), ids.end());
    else
      sample.labels.insert(sample.labels.end(), ids.size(), kIgnore);
    at = end;
  };
  for (size_t i = 0; i < spans.size(); ++i) {
    bool learn = prepared.loss[spans[i].message].value_or(!config_.train_last_turn_only || i + 1 == spans.size());
    add(spans[i].begin, config_.train_on_prompt);
    add(spans[i].end, learn);
  }
  add(text.size(), config_.train_on_prompt);
  if (!sample.labels.empty()) sample.labels[0] = kIgnore;
  return sample;
}

// A conversation that will be dropped for its length needs no labels. Texts split at responses have a few more tokens than the
// whole text.
std::optional<Sample> JinjaEncoder::clearly_too_long(const Prepared& prepared, const std::string& whole) const {
  if (config_.max_length <= 0 || config_.truncation != Truncation::drop || prepared.messages.size() < 2 * kManyAssistants)
    return std::nullopt;
  Sample sample;
  sample.ids = guarded_tokens(whole);
  if (sample.ids.size() <= static_cast<size_t>(config_.max_length) + 4 * prepared.messages.size()) return std::nullopt;
  sample.labels.assign(sample.ids.size(), kIgnore);
  return sample;
}

Sample JinjaEncoder::encode_untruncated(const Conversation& conversation) const {
  auto prepared = prepare(conversation);
  if (config_.loss_scale.starts_with("last_round") || config_.mask_history) {
    size_t last = 0;
    for (size_t i = 0; i < prepared.messages.size(); ++i)
      if (prepared.messages[i]["role"] != "assistant") last = i;
    for (size_t i = 0; i < last; ++i)
      if (!prepared.loss[i]) prepared.loss[i] = false;
  }
  guard(prepared);
  auto whole = render(prepared, prepared.messages, false);
  if (auto over = clearly_too_long(prepared, whole.text)) return std::move(*over);
  return tokenize(whole.text, response_spans(prepared, whole), prepared);
}

std::vector<TokenId> JinjaEncoder::encode_generation_prompt(const Conversation& conversation) const {
  auto prepared = prepare(conversation);
  guard(prepared);
  bool continues = prepared.messages.back()["role"] == "assistant";
  auto before = prepared.messages;
  auto tail = config_.response_prefix.value_or("");
  if (continues) {
    tail = before.back()["content"].get<std::string>();
    before.erase(before.size() - 1);
  }
  auto text = render(prepared, before, true).text + tail;
  return guarded_tokens(text);
}

}  // namespace hone::data
