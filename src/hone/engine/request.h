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
  int64_t priority = 0;                             // lower first; equal ones in order of arrival
  bool detokenize = true;                           // false: token ids only, without stop strings
  std::shared_ptr<const PromptImages> images = {};  // null: only text
  uint64_t group = 0;                               // requests of a group share a prefix: one replica computes them; 0: none
};

enum class FinishReason { none, stop, length, cancelled, error };

struct TokenLogprob {
  text::TokenId token = 0;
  float logprob = 0;
};
struct PositionLogprobs {
  TokenLogprob chosen;
  int64_t token_rank = 0;            // of the chosen token, 1 is the most likely
  std::vector<TokenLogprob> top;     // the requested number, most likely first
  std::vector<TokenLogprob> others;  // of logprob_token_ids, in their order
};

// Error of a completion whose logits are NaN.
inline constexpr const char* kModelComputesNan = "the model computes NaN: its weights or its adapter's are broken";

// The output of one step for one request. The last one has a finish reason.
struct RequestOutput {
  RequestId id = 0;
  size_t index = 0;                               // index of a beam search's completion, the best is 0
  std::vector<text::TokenId> tokens;              // new ones, without end tokens
  std::string text;                               // final text: complete characters, never a part of a stop string
  std::vector<PositionLogprobs> logprobs;         // one per new token, on request
  std::vector<PositionLogprobs> prompt_logprobs;  // once, with the first output, on request; from prompt_logprobs_start on
  FinishReason finish = FinishReason::none;
  std::string stop_string;           // the stop string that ended it, if one did
  text::TokenId stop_token = -1;     // the stop or end token that ended it, if one did
  std::optional<float> eos_logprob;  // of the end token, which is not part of the completion, with logprobs
  std::string error;                 // reason of FinishReason::error
  bool model_broken = false;         // … which the request did not cause: the model computed NaN, or its replica failed
  int64_t prompt_tokens = 0, cached_tokens = 0;  // of the prompt; how many of them were found in the prefix cache
  int64_t weights_version = 0;                   // that computed these tokens
  std::vector<int16_t> routed_experts;           // in the last output, on request: [computed tokens, layers with experts, k]
};

}  // namespace hone::engine
