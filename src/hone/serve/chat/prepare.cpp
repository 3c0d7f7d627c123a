#include <random>

#include "hone/engine/engine.h"
#include "hone/serve/chat/length.h"
#include "hone/serve/chat/task.h"
#include "hone/serve/http/problem.h"
#include "hone/text/templates/agent_format.h"

namespace hone::serve {
namespace {

using engine::SamplingParams;

// {"name": one of the functions, "arguments": what it takes}
Json call_schema(const Json& tools, const ToolChoice& choice) {
  Json calls = Json::array();
  for (const auto& tool : tools) {
    const auto& function = tool["function"];
    if (choice.mode == ToolChoice::Mode::named && function["name"] != choice.name) continue;
    Json parameters = function.value("parameters", Json());
    if (!parameters.is_object() || parameters.empty())
      parameters = {{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
    calls.push_back({{"type", "object"},
                     {"properties", {{"name", {{"const", function["name"]}}}, {"arguments", parameters}}},
                     {"required", {"name", "arguments"}},
                     {"additionalProperties", false}});
  }
  return calls.size() == 1 ? calls[0] : Json{{"anyOf", calls}};
}

bool forces_call(const ChatTask& task) {
  return task.tool_choice.mode == ToolChoice::Mode::required || task.tool_choice.mode == ToolChoice::Mode::named;
}

void read_calls(const Json& tools, const ServedModel& served, AnswerParser::Config& parser) {
  parser.tools = served.tools;
  for (const auto& tool : tools) parser.offered.push_back(tool["function"]["name"]);
}

// response_format and output_config are about answers in words, of which a call has none; the others are about all of the output.
void check_no_other_shape(const ChatTask& task) {
  bool of_words = task.shape.where.starts_with("response_format") || task.shape.where.starts_with("output_config");
  if (task.shape.kind != Shape::Kind::free && !of_words)
    bad_value(task.shape.where, "does not go with a tool_choice that asks for a call");
}

// Whatever tokens spell it.
bool prompt_opens_thought(const std::vector<text::TokenId>& prompt, const text::Tokenizer& tokenizer) {
  size_t tail = std::min<size_t>(prompt.size(), 64);
  auto text = tokenizer.decode(std::span(prompt).last(tail));
  text.erase(text.find_last_not_of(" \n\r\t") + 1);
  return text.ends_with("<think>");
}

// A held answer is the answer itself: the thought that the prompt opens stays empty, as templates write it when thinking is off.
void close_thought(std::vector<text::TokenId>& prompt, const text::Tokenizer& tokenizer) {
  tokenizer.encode_to("\n</think>\n\n", {}, prompt);
}

}  // namespace

ToolFormat tool_format_of(const data::Encoder& encoder) {
  const auto &agent = encoder.config().tool_format, &name = encoder.template_name();
  if (!text::find_agent_format(agent)) {
    bool tagged = encoder.tokenizer().chat_template().find("<|python_tag|>") != std::string::npos;
    return name.starts_with("llama3") || name.starts_with("llama4") || tagged ? ToolFormat::llama : ToolFormat::hermes;
  }
  if (agent == "llama3" || agent == "llama4") return ToolFormat::llama;
  return agent == "hermes" || agent == "hunyuan_hermes" ? ToolFormat::hermes : ToolFormat::none;
}

uint64_t fresh_seed() {
  thread_local std::mt19937_64 source{std::random_device{}()};
  return source() >> 1;  // fits a signed number, so that it can be written into a request again
}

void fit_context(engine::Request& request, std::optional<int64_t> asked, const ServedModel& served) {
  auto used = static_cast<int64_t>(request.prompt.size());
  if (used == 0) throw Problem(400, "the prompt is empty", "prompt", "invalid_value");
  if (used >= served.max_context) context_exceeded(served, std::to_string(used), "messages");
  request.sampling.max_tokens = std::min(asked.value_or(served.max_context), served.max_context - used);
  request.sampling.min_tokens = std::min(request.sampling.min_tokens, request.sampling.max_tokens);
}

void apply_shape(const Shape& shape, const ServedModel& served, SamplingParams& sampling) {
  using Kind = Shape::Kind;
  if (shape.kind == Kind::free) return;
  refuse_long_shape(shape.value, shape.where);
  const auto& compiler = *served.constraints;
  auto compiled = shape.kind == Kind::regex    ? compiler.regex(shape.value.get_ref<const std::string&>())
                  : shape.kind == Kind::schema ? compiler.json_schema(shape.value)
                  : shape.kind == Kind::object ? compiler.json_object()
                                               : compiler.choice(shape.value.get<std::vector<std::string>>());
  if (!compiled)
    throw Problem(400, "the asked output shape cannot be followed: " + compiled.error(), shape.where, "invalid_schema");
  sampling.constraint = std::move(*compiled);
}

std::vector<text::TokenId> prompt_tokens(const ChatTask& task, const ServedModel& served) {
  auto conversation = task.conversation;
  if (!task.tools.empty() && task.tool_choice.mode != ToolChoice::Mode::none) conversation.tools = dump(task.tools);
  auto prompt = served.encoder->encode_prompt(conversation);
  if (!prompt)
    throw Problem(400, "the model's chat template refuses the conversation: " + prompt.error(), "messages", "invalid_value");
  return std::move(*prompt);
}

PreparedChat prepare_chat(const ChatTask& task, const ServedModel& served) {
  refuse_overlong(task.conversation, served, "messages");
  refuse_long_extras(task.conversation, task.tools);
  PreparedChat prepared;
  engine::Request request{.prompt = prompt_tokens(task, served), .sampling = task.sampling, .priority = task.priority};
  bool thinking = prompt_opens_thought(request.prompt, *served.tokenizer);
  if (forces_call(task)) {
    check_no_other_shape(task);
    apply_shape({Shape::Kind::schema, call_schema(task.tools, task.tool_choice), "tools"}, served, request.sampling);
    prepared.parser = {.tools = ToolFormat::only_call, .split_thoughts = false};
  } else {
    apply_shape(task.shape, served, request.sampling);
    prepared.parser = {.split_thoughts = served.split_thoughts && task.split_thoughts,
                       .begins_thinking = thinking && !request.sampling.constraint,
                       .one_call = task.one_call};
    if (!task.tools.empty() && task.tool_choice.mode == ToolChoice::Mode::automatic) read_calls(task.tools, served, prepared.parser);
  }
  if (thinking && request.sampling.constraint) close_thought(request.prompt, *served.tokenizer);
  prepared.prompt_tokens = static_cast<int64_t>(request.prompt.size());
  auto asked = task.max_tokens;
  if (!asked && served.default_max_tokens > 0) asked = served.default_max_tokens;
  fit_context(request, asked, served);
  add_requests(request, task.n, prepared.requests);
  return prepared;
}

void add_requests(const engine::Request& request, int64_t answers, std::vector<engine::Request>& requests) {
  auto entries = request.sampling.prompt_logprobs ? request.prompt.size() * (1 + static_cast<size_t>(*request.sampling.prompt_logprobs)) : 0;
  if (entries * static_cast<size_t>(answers) > kMostLogprobs)
    bad_value("prompt_logprobs", fmt::format("{} tokens would give {} of them; at most {} go into one answer", request.prompt.size(),
                                             entries * static_cast<size_t>(answers), kMostLogprobs));
  bool beams = request.sampling.beams > 1;
  for (int64_t i = 0; i < (beams ? 1 : answers); ++i) {
    requests.push_back(request);
    requests.back().sampling.seed = engine::seed_of(request.sampling.seed, static_cast<uint64_t>(i));
    if (beams) requests.back().sampling.beam_answers = answers;
  }
}

}  // namespace hone::serve
