#include "hone/data/encode/jinja.h"

#include <algorithm>

#include "hone/data/encode/loss_scale.h"
#include "hone/data/encode/tools_as_text.h"

namespace hone::data {
namespace {

using text::FormatError;
using text::TokenId;

const Json kNoParameters = {{"type", "object"}, {"properties", Json::object()}};

std::string token_text(const text::Tokenizer& tokenizer, const std::optional<TokenId>& id) { return id ? tokenizer.token_of(*id) : ""; }

// Calls become an assistant message's tool_calls, as templates expect them.
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

// While a template runs, text that spells a special token stands between two noncharacters, so that it can be told apart afterwards.
constexpr std::string_view kGuard = "\uFDD0", kGuardEnd = "\uFDD1", kReplacement = "\uFFFD";

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) text.replace(at, what.size(), with);
}

size_t common_prefix(const std::string& a, const std::string& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

size_t common_suffix(const std::string& a, const std::string& b) {
  return static_cast<size_t>(std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first - a.rbegin());
}

}  // namespace

Json template_variables(const text::Tokenizer& tokenizer, Json messages, Json tools, bool add_generation_prompt) {
  Json variables = {{"messages", std::move(messages)}, {"tools", std::move(tools)}, {"documents", nullptr},
                    {"add_generation_prompt", add_generation_prompt}};
  const auto& special = tokenizer.special();
  if (special.bos) variables["bos_token"] = token_text(tokenizer, special.bos);
  if (special.eos) variables["eos_token"] = token_text(tokenizer, special.eos);
  if (special.pad) variables["pad_token"] = token_text(tokenizer, special.pad);
  if (special.unk) variables["unk_token"] = token_text(tokenizer, special.unk);
  return variables;
}

// The model's own template learns whole answers, so of loss_scale only the base can be followed.
static EncodeConfig read_loss_scale(EncodeConfig config) {
  LossScale scale(config.loss_scale);
  if (scale.base() == LossScale::Base::all) config.train_on_prompt = true;
  if (scale.has_names())
    throw UserError(ExitCode::usage, "loss_scale \"" + config.loss_scale + "\" does not go with the model's own chat template",
                    "name a built-in one with --template, or use default, last_round or all");
  return config;
}

JinjaEncoder::JinjaEncoder(EncodeConfig config, std::shared_ptr<const text::Tokenizer> tokenizer, text::ChatTemplate chat_template)
    : Encoder(read_loss_scale(std::move(config)), std::move(tokenizer), "jinja"), template_(std::move(chat_template)) {
  turn_tokens_ = stop_words();
  choose_tool_form();
}

Result<text::Rendered> JinjaEncoder::render_probe(const Json& messages, const Json& tools) const {
  return template_.render(template_variables(*tokenizer_, messages, tools, true));
}

// A template without a form for tools would drop them silently. Whether it has one, its rendering tells.
void JinjaEncoder::choose_tool_form() {
  const Json question = Json::array({{{"role", "user"}, {"content", "a question"}}});
  const Json instructed = Json::array({{{"role", "system"}, {"content", "an instruction"}}, question[0]});
  const Json tool = {{"type", "function"}, {"function", {{"name", "look_up"}, {"description", "Looks up."}, {"parameters", kNoParameters}}}};
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
  if (config_.system && messages[0].role != "system") messages.insert(messages.begin(), {.role = "system", .content = *config_.system});
  if (agent_) messages = tools_as_text(messages, parse_tools(conversation.tools), *agent_, takes_system_);
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
  if (!rendered) throw FormatError("the model's chat template refuses the conversation: " + rendered.error());
  return std::move(*rendered);
}

std::optional<JinjaEncoder::Span> JinjaEncoder::span_by_prefix(const Prepared& prepared, const std::string& whole, size_t message) const {
  Json before = Json::array(), upto;
  for (size_t i = 0; i < message; ++i) before.push_back(prepared.messages[i]);
  upto = before;
  upto.push_back(prepared.messages[message]);
  auto with_answer = message + 1 == prepared.messages.size() ? whole : render(prepared, upto, false).text;
  auto open = render(prepared, before, true).text;
  // A template may open a thought in its generation prompt that a finished answer does not show.
  if (!with_answer.starts_with(open)) open = render(prepared, before, false).text;
  if (!with_answer.starts_with(open) || !whole.starts_with(with_answer)) return std::nullopt;
  return Span{open.size(), with_answer.size(), message};
}

// Where the text changes when the answer does; `ending` is what closes the last answer and closes this one too when it stands there.
std::optional<JinjaEncoder::Span> JinjaEncoder::span_by_difference(const Prepared& prepared, const std::string& whole, size_t message,
                                                                   const std::string& ending) const {
  auto changed = prepared.messages;
  changed[message]["content"] = "\x01";
  changed[message].erase("tool_calls");
  auto other = render(prepared, changed, false).text;
  size_t begin = common_prefix(whole, other);
  size_t shared_end = std::min(common_suffix(whole, other), std::min(whole.size(), other.size()) - begin);
  size_t end = whole.size() - shared_end;
  if (end <= begin) return std::nullopt;
  if (whole.compare(end, ending.size(), ending) == 0) end += ending.size();
  return Span{begin, end, message};
}

std::vector<JinjaEncoder::Span> JinjaEncoder::answer_spans(const Prepared& prepared, const text::Rendered& whole) const {
  std::vector<size_t> answers;
  for (size_t i = 0; i < prepared.messages.size(); ++i)
    if (prepared.messages[i]["role"] == "assistant") answers.push_back(i);
  std::vector<Span> spans;
  if (!whole.answers.empty()) {
    bool one_each = whole.answers.size() == answers.size();
    for (size_t i = 0; i < whole.answers.size(); ++i)
      spans.push_back({whole.answers[i].begin, whole.answers[i].end, one_each ? answers[i] : answers.back()});
    return spans;
  }
  std::string ending;
  if (!answers.empty() && answers.back() + 1 == prepared.messages.size())
    if (auto last = span_by_difference(prepared, whole.text, answers.back(), "")) ending = whole.text.substr(last->end);
  for (size_t message : answers) {
    auto span = span_by_prefix(prepared, whole.text, message);
    if (!span) span = span_by_difference(prepared, whole.text, message, ending);
    if (!span) throw FormatError("the model's chat template does not show answer " + std::to_string(message));
    spans.push_back(*span);
  }
  return spans;
}

Sample JinjaEncoder::tokenise(const std::string& text, const std::vector<Span>& spans, const Prepared& prepared) const {
  Sample sample;
  size_t at = 0;
  auto add = [&](size_t end, bool learn) {
    if (end <= at) return;
    auto ids = guarded_tokens(text.substr(at, end - at));
    sample.ids.insert(sample.ids.end(), ids.begin(), ids.end());
    if (learn) sample.labels.insert(sample.labels.end(), ids.begin(), ids.end());
    else sample.labels.insert(sample.labels.end(), ids.size(), kIgnore);
    at = end;
  };
  for (size_t i = 0; i < spans.size(); ++i) {
    bool learn = prepared.loss[spans[i].message].value_or(!config_.last_answer_only || i + 1 == spans.size());
    add(spans[i].begin, config_.train_on_prompt);
    add(spans[i].end, learn);
  }
  add(text.size(), config_.train_on_prompt);
  if (!sample.labels.empty()) sample.labels[0] = kIgnore;
  return sample;
}

Sample JinjaEncoder::encode_whole(const Conversation& conversation) const {
  auto prepared = prepare(conversation);
  if (config_.loss_scale.starts_with("last_round") || config_.mask_history) {
    size_t last = 0;
    for (size_t i = 0; i < prepared.messages.size(); ++i)
      if (prepared.messages[i]["role"] != "assistant") last = i;
    for (size_t i = 0; i < last; ++i)
      if (!prepared.loss[i]) prepared.loss[i] = false;
  }
  guard(prepared, true);
  auto whole = render(prepared, prepared.messages, false);
  return tokenise(whole.text, answer_spans(prepared, whole), prepared);
}

// Our own marks in anybody's text would turn the guarding around, an assistant's included.
void JinjaEncoder::take_out_marks(Json& value) {
  if (value.is_structured())
    for (auto& part : value) take_out_marks(part);
  if (!value.is_string()) return;
  for (auto mark : {kGuard, kGuardEnd}) replace_all(value.get_ref<std::string&>(), mark, kReplacement);
}

void JinjaEncoder::guard_strings(Json& value) const {
  if (value.is_structured())
    for (auto& part : value) guard_strings(part);
  if (!value.is_string()) return;
  auto& text = value.get_ref<std::string&>();
  if (spells_special_token(text)) text = std::string(kGuard) + text + std::string(kGuardEnd);
}

void JinjaEncoder::guard(Prepared& prepared, bool answers_too) const {
  if (!config_.guard_special_tokens) return;
  take_out_marks(prepared.messages);
  take_out_marks(prepared.tools);
  guard_strings(prepared.tools);
  for (auto& message : prepared.messages)
    if (answers_too || message["role"] != "assistant") guard_strings(message["content"]);
}

// A template may cut a text and lose one of its marks: what is left of the pair is no text.
std::vector<TokenId> JinjaEncoder::guarded_tokens(const std::string& rendered) const {
  if (!config_.guard_special_tokens) return tokens(rendered);
  std::vector<TokenId> ids;
  bool inside = false;
  for (size_t at = 0; at <= rendered.size();) {
    auto end = std::min(rendered.find(inside ? kGuardEnd : kGuard, at), rendered.size());
    auto part = rendered.substr(at, end - at);
    replace_all(part, inside ? kGuard : kGuardEnd, "");
    auto more = tokens(part, inside);
    ids.insert(ids.end(), more.begin(), more.end());
    at = end + kGuard.size();
    inside = !inside;
  }
  return ids;
}

std::vector<TokenId> JinjaEncoder::encode_open(const Conversation& conversation) const {
  auto prepared = prepare(conversation);
  guard(prepared, false);
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
