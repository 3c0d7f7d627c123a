// Requests to the engine and their outputs.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hone/engine/sampling_params.h"

namespace hone::engine {

using RequestId = uint64_t;
struct PromptImages;

struct Request {
  std::vector<text::TokenId> prompt;
  SamplingParams sampling;
  std::string adapter;                              // "" is the base model
  int64_t priority = 0;                             // lower goes first; equal ones in the order they came
  bool detokenize = true;                           // false: token ids only, and stop strings are not looked for
  std::shared_ptr<const PromptImages> images = {};  // null: text alone
};

enum class FinishReason { none, stop, length, cancelled, error };

struct TokenLogprob {
  text::TokenId token = 0;
  float logprob = 0;
};
struct PositionLogprobs {
  TokenLogprob chosen;
  int64_t token_rank = 0;            // of the chosen token, 1 is the most likely
  std::vector<TokenLogprob> top;     // most likely first, as many as were asked for
  std::vector<TokenLogprob> others;  // of logprob_token_ids, in their order
};

// Why an answer breaks off that is not the request's doing.
inline constexpr const char* kModelComputesNan = "the model computes NaN: its weights or its adapter's are broken";

// What one step added to one request. The last of a request has a finish reason; nothing follows it.
struct RequestOutput {
  RequestId id = 0;
  size_t answer = 0;                              // which one of a beam search's, the best is 0
  std::vector<text::TokenId> tokens;              // new ones, end tokens left out
  std::string text;                               // what became final: never half a character, never a part of a stop string
  std::vector<PositionLogprobs> logprobs;         // one per new token, when asked for
  std::vector<PositionLogprobs> prompt_logprobs;  // once, with the first output, when asked for; from prompt_logprobs_start on
  FinishReason finish = FinishReason::none;
  std::string stop_string;           // the stop string that ended it, if one did
  text::TokenId stop_token = -1;     // the stop or end token that ended it, if one did
  std::optional<float> eos_logprob;  // of an end token, which is no part of the answer, when logprobs were asked for
  std::string error;                 // why, for FinishReason::error
  bool model_broken = false;         // … which is not the request's doing: the model computes no numbers, or its copy failed
  int64_t prompt_tokens = 0, cached_tokens = 0;  // of the prompt; how many of them were found in the prefix cache
  int64_t weights_version = 0;                   // that computed these tokens
};

}  // namespace hone::engine
