// A chat request of any protocol: typed, bounded, and ready for the engine.
#pragma once
#include <optional>

#include "hone/engine/request.h"
#include "hone/serve/chat/request_media.h"
#include "hone/serve/schema/fields.h"

namespace hone::serve {

// Maximum entries of a non-streamed response: it is built in memory, about a hundred bytes of text per entry.
inline constexpr size_t kMostLogprobs = 500'000;

struct ToolChoice {
  enum class Mode { none, automatic, required, named };
  Mode mode = Mode::automatic;
  std::string name;  // of the one function, for `named`
};

// The output constraint.
struct ResponseFormat {
  enum class Kind { free, regex, schema, object, choice };
  Kind kind = Kind::free;
  Json value;
  std::string where;  // the field that requests it
};

struct StreamOptions {
  bool on = false, usage_at_end = false, usage_in_every_event = false;
};

struct ChatTask {
  std::string model;  // "" is the served one
  std::string user;   // the end user; "" if not given
  data::Conversation conversation;
  Json tools = Json::array();  // {"type": "function", "function": {"name", "description", "parameters"}}
  ToolChoice tool_choice;
  engine::SamplingParams sampling;
  ResponseFormat shape;
  std::optional<int64_t> max_tokens;
  int64_t n = 1, priority = 0;
  StreamOptions stream;
  bool separate_reasoning = true;
  bool single_tool_call = false;   // the first call of a completion is the only one
  bool legacy_calls = false;       // returned as function_call instead of tool_calls
  Json settings = Json::object();  // of the request, for protocols whose responses repeat them
};

struct PreparedChat {
  std::vector<engine::Request> requests;  // n of them, or one beam search with n completions
  OutputParser::Config parser;
  int64_t prompt_tokens = 0;
  std::optional<int64_t> reduced_max_tokens;  // see fit_context
};

// Throws ApiError(400) if it is too long for what follows; first of all.
void check_lengths(const ChatTask& task, const ServedModel& served);
// Renders, tokenizes, decodes media and compiles the constraint: the expensive part of a request, safe on any thread. Throws
// ApiError.
PreparedChat prepare_chat(const ChatTask& task, const ServedModel& served, const RequestMedia& media);
std::vector<text::TokenId> prompt_tokens(const ChatTask& task, const ServedModel& served, const RequestMedia& media);

// Reduces max_tokens to the remaining context and returns it if it is less than requested; with refuse_long_completions that is
// ApiError(400, context_length_exceeded), as is an exhausted context.
std::optional<int64_t> fit_context(engine::Request& request, std::optional<int64_t> asked, const ServedModel& served);
// The header X-Max-Tokens of a response that may be shorter than requested.
std::pair<std::string, std::string> max_tokens_header(int64_t reduced_max_tokens);
void apply_response_format(const ResponseFormat& shape, const ServedModel& served, engine::SamplingParams& sampling);

// Sampling fields common to OpenAI's endpoints.
void read_sampling(const Fields& fields, const ServedModel& served, engine::SamplingParams& sampling);
// Those of the older two only: beams, and log-probabilities of the prompt.
void read_search(const Fields& fields, const ServedModel& served, engine::SamplingParams& sampling);
ResponseFormat read_response_format(const Fields& fields, Endpoint endpoint);
StreamOptions read_stream(const Fields& fields);
uint64_t fresh_seed();
// A list of token ids; ApiError(400) naming the first unknown one.
std::vector<text::TokenId> read_token_ids(const Json& list, const std::string& where, const text::Tokenizer& tokenizer);
// Copies `request` `num_completions` times, with separate seeds; a beam search generates all at once. ApiError(400) if the
// prompt, or a non-streamed response of `asked` tokens, would have too many log-probabilities.
void add_requests(const engine::Request& request, int64_t num_completions, std::optional<int64_t> asked,
                  std::vector<engine::Request>& requests);

}  // namespace hone::serve
