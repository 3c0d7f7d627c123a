// Sampling parameters and stop conditions of one request. The default is greedy decoding until the model ends its turn.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hone/text/tokenizer.h"

namespace hone::engine {

class Constraint;

// When a beam search ends: once no running beam is likely to beat the worst finished completion (at its present length), as soon
// as there are enough finished completions, or once none can beat it at any length.
enum class EarlyStopping { no, yes, never };

struct SamplingParams {
  double temperature = 0.0;  // 0: the most likely token
  int64_t top_k = 0;         // 0: all
  double top_p = 1.0;
  double min_p = 0.0;  // relative to the most likely token
  uint64_t seed = 0;
  bool batch_invariant =
      false;  // on the CPU: bit-identical regardless of other requests; such prompts are neither shared nor batched

  double repetition_penalty = 1.0;  // for tokens of prompt and completion: divides positive logits, multiplies negative ones
  double presence_penalty = 0.0;    // subtracted once for a token of the completion
  double frequency_penalty = 0.0;   // subtracted for each occurrence
  std::vector<std::pair<text::TokenId, float>> logit_bias;
  std::vector<std::vector<text::TokenId>> bad_words;  // token sequences that are never generated
  std::shared_ptr<const Constraint> constraint;       // only tokens that it allows are sampled

  int64_t max_tokens = 512;                  // of the completion
  int64_t min_tokens = 0;                    // before that, end and stop tokens are masked, and stop strings are ignored
  std::vector<text::TokenId> eos_token_ids;  // the model's end of turn or text: not part of the completion
  bool ignore_eos = false;                   // end tokens are ordinary tokens
  std::vector<text::TokenId> stop_tokens;    // end the completion as its last token
  std::vector<std::string> stop;             // the text ends before the first of them
  bool include_stop_str_in_output = false;   // the text ends after it instead
  bool skip_special_tokens = true;           // in the text

  int64_t num_beams = 1;             // above 1: beam search; the completions are returned at the end
  int64_t num_return_sequences = 1;  // completions of a beam search to return
  double length_penalty = 1.0;       // a completion's log-probability is divided by its length to this power
  EarlyStopping early_stopping = EarlyStopping::no;

  std::optional<int64_t>
      logprobs;  // of each sampled token and this number of the most likely; of the raw logits, before any setting above
  double logprobs_temperature = 1.0;             // divides the logits of `logprobs`; a trainer uses the sampling temperature
  std::vector<text::TokenId> logprob_token_ids;  // with `logprobs`: of these tokens, too
  std::optional<int64_t> prompt_logprobs;        // the same for prompt tokens: for each, or from one of them on
  int64_t prompt_logprobs_start = 1;             // the first of them; tokens well before it may come from the prefix cache
};

}  // namespace hone::engine
