// A chat request, whatever protocol it came by: typed, bounded, and on its way to the engine.
#pragma once
#include <optional>

#include "hone/engine/request.h"
#include "hone/serve/chat/served_model.h"
#include "hone/serve/schema/fields.h"

namespace hone::serve {

struct ToolChoice {
  enum class Mode { none, automatic, required, named };
  Mode mode = Mode::automatic;
  std::string name;  // of the one function, for `named`
};

// What the output is held to.
struct Shape {
  enum class Kind { free, regex, schema, object, choice };
  Kind kind = Kind::free;
  Json value;
};

struct ChatTask {
  std::string model;  // "" is the served one
  data::Conversation conversation;
  Json tools = Json::array();  // {"type": "function", "function": {"name", "description", "parameters"}}
  ToolChoice tool_choice;
  engine::SamplingParams sampling;
  Shape shape;
  std::optional<int64_t> max_tokens;
  int64_t n = 1, priority = 0;
  bool stream = false, include_usage = false, usage_in_every_event = false;
  bool split_thoughts = true;
  bool one_call = false;      // the first call of an answer is the only one
  bool legacy_calls = false;  // answered as function_call instead of tool_calls
};

struct PreparedChat {
  std::vector<engine::Request> answers;  // n of them
  AnswerParser::Config parser;
  int64_t prompt_tokens = 0;
};

// Renders, tokenises, compiles the shape: the expensive half of a request, safe on any thread. Throws Problem.
PreparedChat prepare_chat(const ChatTask& task, const ServedModel& served);
std::vector<text::TokenId> prompt_tokens(const ChatTask& task, const ServedModel& served);

// Cuts the answer's length to what the context leaves; Problem(400, context_length_exceeded) when it leaves nothing.
void fit_context(engine::Request& request, std::optional<int64_t> asked, const ServedModel& served);
void apply_shape(const Shape& shape, const ServedModel& served, engine::SamplingParams& sampling);

// Sampling fields that OpenAI's two endpoints share.
void read_sampling(const Fields& fields, const ServedModel& served, engine::SamplingParams& sampling);
Shape read_shape(const Fields& fields, Endpoint endpoint);
uint64_t fresh_seed();

}  // namespace hone::serve
