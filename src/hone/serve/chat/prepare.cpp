#include <random>

#include "hone/data/batches/image_batch.h"
#include "hone/engine/engine.h"
#include "hone/engine/prompt_images.h"
#include "hone/serve/chat/length.h"
#include "hone/serve/chat/task.h"
#include "hone/serve/http/api_error.h"
#include "hone/serve/tool_parsers/forced_tool_call.h"

namespace hone::serve {
namespace {

using engine::SamplingParams;

bool forces_call(const ChatTask& task) {
  return task.tool_choice.mode == ToolChoice::Mode::required || task.tool_choice.mode == ToolChoice::Mode::named;
}

std::shared_ptr<const ToolSchemas> schemas_of(const Json& tools, const std::string& only = "") {
  auto schemas = std::make_shared<ToolSchemas>();
  for (const auto& tool : tools)
    if (const auto& function = tool["function"]; only.empty() || function["name"] == only)
      (*schemas)[function["name"].get<std::string>()] = function.value("parameters", Json());
  return schemas;
}

// Markers that are special tokens must stay in the text so that calls can be parsed; generation stops at a tool result.
void expect_calls(const ChatTask& task, const ServedModel& served, engine::Request& request, OutputParser::Config& parser) {
  parser.calls = served.calls;
  parser.offered = schemas_of(task.tools);
  for (auto mark : served.calls->opens)
    if (auto id = served.tokenizer->id_of(mark); id && served.tokenizer->is_special(*id))
      request.sampling.skip_special_tokens = false;
  if (!served.calls->result.empty()) request.sampling.stop.emplace_back(served.calls->result);
}

// These apply to text responses, not to calls; the others apply to the full output.
void check_no_other_shape(const ChatTask& task) {
  bool of_words = false;
  for (auto field : {"response_format", "output_config", "text.format"}) of_words |= task.shape.where.starts_with(field);
  if (task.shape.kind != ResponseFormat::Kind::free && !of_words)
    bad_value(task.shape.where, "cannot be combined with a tool_choice that forces a call");
}

// One call in the model's own format: the prompt opens it, the constraint covers the rest.
void force_call(const ChatTask& task, const ServedModel& served, engine::Request& request, OutputParser::Config& parser) {
  auto functions = schemas_of(task.tools, task.tool_choice.mode == ToolChoice::Mode::named ? task.tool_choice.name : "");
  reject_long_response_format(task.tools, "tools");
  auto key = fmt::format("call {} {} {}", served.calls->name, task.tool_choice.name, dump(task.tools));
  auto compiled = served.constraints->shared(key, [&] { return forced_tool_call_pattern(*served.calls, *functions); });
  if (!compiled)
    throw ApiError(400, "the requested output format is not supported: " + compiled.error(), "tools", "invalid_schema");
  request.sampling.constraint = std::move(*compiled);
  parser = {.calls = served.calls, .separate_reasoning = false, .in_call = true, .offered = std::move(functions)};
}

// Whichever tokens spell it.
bool prompt_opens_reasoning(const std::vector<text::TokenId>& prompt, const text::Tokenizer& tokenizer) {
  size_t tail = std::min<size_t>(prompt.size(), 64);
  auto text = tokenizer.decode(std::span(prompt).last(tail));
  text.erase(text.find_last_not_of(" \n\r\t") + 1);
  return text.ends_with("<think>");
}

// A constrained output is the response itself: a think block opened by the prompt stays empty, as with thinking off.
void close_reasoning(std::vector<text::TokenId>& prompt, const text::Tokenizer& tokenizer) {
  tokenizer.encode_to("\n</think>\n\n", {}, prompt);
}

}  // namespace

const ToolCallFormat& call_syntax_of(const data::Encoder& encoder) {
  if (auto named = find_call_syntax(encoder.config().tool_format)) return *named;
  const auto& name = encoder.template_name();
  bool llama = name.starts_with("llama3") || name.starts_with("llama4");
  return llama ? *find_call_syntax("llama3") : call_syntax_in(encoder.tokenizer().chat_template());
}

uint64_t fresh_seed() {
  thread_local std::mt19937_64 source{std::random_device{}()};
  return source() >> 1;  // fits a signed integer, so that it can be used in another request
}

std::pair<std::string, std::string> max_tokens_header(int64_t reduced_max_tokens) {
  return {"X-Max-Tokens", std::to_string(reduced_max_tokens)};
}

static int64_t prompt_length(const engine::Request& request, const ServedModel& served) {
  const auto used = static_cast<int64_t>(request.prompt.size());
  if (used == 0) throw ApiError(400, "the prompt is empty", "prompt", "invalid_value");
  if (used >= served.max_model_len) context_exceeded(served, std::to_string(used), "messages");
  return used;
}

std::optional<int64_t> fit_context(engine::Request& request, std::optional<int64_t> asked, const ServedModel& served) {
  const int64_t used = prompt_length(request, served);
  const int64_t room = served.max_model_len - used;
  if (served.refuse_long_completions && asked && *asked > room)
    throw ApiError(400,
                   fmt::format("max_tokens is {}; the prompt's {} tokens leave {} of this model's context of {}", *asked, used,
                               room, served.max_model_len),
                   "max_tokens", "context_length_exceeded");
  request.sampling.max_tokens = std::min(asked.value_or(served.max_model_len), room);
  request.sampling.min_tokens = std::min(request.sampling.min_tokens, request.sampling.max_tokens);
  return asked && *asked > room ? std::optional(room) : std::nullopt;
}

void apply_response_format(const ResponseFormat& shape, const ServedModel& served, SamplingParams& sampling) {
  using Kind = ResponseFormat::Kind;
  if (shape.kind == Kind::free) return;
  reject_long_response_format(shape.value, shape.where);
  const auto& compiler = *served.constraints;
  auto compiled = shape.kind == Kind::regex    ? compiler.regex(shape.value.get_ref<const std::string&>())
                  : shape.kind == Kind::schema ? compiler.json_schema(shape.value)
                  : shape.kind == Kind::object ? compiler.json_object()
                                               : compiler.choice(shape.value.get<std::vector<std::string>>());
  if (!compiled)
    throw ApiError(400, "the requested output format is not supported: " + compiled.error(), shape.where, "invalid_schema");
  sampling.constraint = std::move(*compiled);
}

static std::vector<text::TokenId> encode_prompt(const ChatTask& task, const ServedModel& served, const RequestMedia& media,
                                                std::vector<data::Picture>& pictures, std::vector<data::Sound>& sounds) {
  auto conversation = media.with_content(task.conversation);
  if (!task.tools.empty() && task.tool_choice.mode != ToolChoice::Mode::none) conversation.tools = dump(task.tools);
  auto prompt = served.encoder->encode_prompt(conversation, &pictures, &sounds);
  if (prompt) return std::move(*prompt);
  const bool has_media = !conversation.images.empty() || !conversation.videos.empty() || !conversation.audios.empty();
  const auto subject = has_media ? "" : "the model's chat template rejects the conversation: ";
  throw ApiError(400, subject + prompt.error(), "messages", "invalid_value");
}

std::vector<text::TokenId> prompt_tokens(const ChatTask& task, const ServedModel& served, const RequestMedia& media) {
  std::vector<data::Picture> pictures;
  std::vector<data::Sound> sounds;
  return encode_prompt(task, served, media, pictures, sounds);
}

static void add_prompt(const ChatTask& task, const ServedModel& served, const RequestMedia& media, engine::Request& request) {
  std::vector<data::Picture> pictures;
  std::vector<data::Sound> sounds;
  request.prompt = encode_prompt(task, served, media, pictures, sounds);
  if (pictures.empty() && sounds.empty()) return;
  prompt_length(request, served);  // before anything is decoded
  auto batch = data::prompt_batch(request.prompt, std::move(pictures), std::move(sounds), media.decoding);
  if (!batch && media.decoding.is_cancelled()) throw ApiError(499, "the client disconnected");
  if (!batch) throw ApiError(400, batch.error(), "messages", "invalid_value");
  request.images = engine::PromptImages::of(std::move(*batch));
}

void check_lengths(const ChatTask& task, const ServedModel& served) {
  refuse_overlong(task.conversation, served, "messages");
  reject_long_extras(task.conversation, task.tools);
}

PreparedChat prepare_chat(const ChatTask& task, const ServedModel& served, const RequestMedia& media) {
  PreparedChat prepared;
  engine::Request request{.sampling = task.sampling, .priority = task.priority};
  add_prompt(task, served, media, request);
  bool thinking = prompt_opens_reasoning(request.prompt, *served.tokenizer);
  if (forces_call(task)) {
    check_no_other_shape(task);
    force_call(task, served, request, prepared.parser);
  } else {
    apply_response_format(task.shape, served, request.sampling);
    prepared.parser = {.separate_reasoning = served.separate_reasoning && task.separate_reasoning,
                       .begins_thinking = thinking && !request.sampling.constraint,
                       .one_call = task.single_tool_call};
    if (!task.tools.empty() && task.tool_choice.mode == ToolChoice::Mode::automatic)
      expect_calls(task, served, request, prepared.parser);
  }
  if (thinking && request.sampling.constraint) close_reasoning(request.prompt, *served.tokenizer);
  if (forces_call(task)) served.tokenizer->encode_to(served.calls->forced_lead, {}, request.prompt);
  prepared.prompt_tokens = static_cast<int64_t>(request.prompt.size());
  auto asked = task.max_tokens;
  if (!asked && served.default_max_tokens > 0) asked = served.default_max_tokens;
  prepared.reduced_max_tokens = fit_context(request, asked, served);
  add_requests(request, task.n, task.stream.on ? std::nullopt : task.max_tokens, prepared.requests);
  return prepared;
}

void add_requests(const engine::Request& request, int64_t num_completions, std::optional<int64_t> asked,
                  std::vector<engine::Request>& requests) {
  auto entries =
      request.sampling.prompt_logprobs ? request.prompt.size() * (1 + static_cast<size_t>(*request.sampling.prompt_logprobs)) : 0;
  if (entries * static_cast<size_t>(num_completions) > kMostLogprobs)
    bad_value("prompt_logprobs",
              fmt::format("{} tokens would give {} of them; at most {} fit into one response", request.prompt.size(),
                          entries * static_cast<size_t>(num_completions), kMostLogprobs));
  if (asked && request.sampling.logprobs) {
    auto most = static_cast<size_t>(request.sampling.max_tokens * num_completions) *
                (1 + static_cast<size_t>(*request.sampling.logprobs));
    if (most > kMostLogprobs)
      bad_value(
          "logprobs",
          fmt::format(
              "{} completions of {} tokens would give {} of them; at most {} fit into one response: ask for fewer, or stream it",
              num_completions, request.sampling.max_tokens, most, kMostLogprobs));
  }
  bool beams = request.sampling.num_beams > 1;
  for (int64_t i = 0; i < (beams ? 1 : num_completions); ++i) {
    requests.push_back(request);
    requests.back().sampling.seed = engine::seed_of(request.sampling.seed, static_cast<uint64_t>(i));
    if (beams) requests.back().sampling.num_return_sequences = num_completions;
  }
}

}  // namespace hone::serve
