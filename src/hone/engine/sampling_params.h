// How one request's tokens are chosen and when it ends. Defaults choose the most likely token until the model ends its turn.
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

// When a beam search is over: once no running beam is likely to beat the worst finished answer (judged by its present length), as
// soon as there are enough finished answers, or once none can beat it at any length.
enum class EarlyStopping { no, yes, never };

struct SamplingParams {
  double temperature = 0.0;  // 0: the most likely token
  int64_t top_k = 0;         // 0: all
  double top_p = 1.0;
  double min_p = 0.0;  // relative to the most likely token
  uint64_t seed = 0;
  bool batch_invariant =
      false;  // on the CPU: to the last bit the same whatever else is computed; prompts are not shared and not joined then

  double repetition_penalty = 1.0;  // of tokens in the prompt or the answer: divides positive logits, multiplies negative ones
  double presence_penalty = 0.0;    // subtracted once for a token of the answer
  double frequency_penalty = 0.0;   // subtracted for each time it stands there
  std::vector<std::pair<text::TokenId, float>> logit_bias;
  std::vector<std::vector<text::TokenId>> bad_words;  // sequences that never appear in the answer
  std::shared_ptr<const Constraint> constraint;       // only what it allows is chosen

  int64_t max_tokens = 512;  // of the answer
  int64_t min_tokens = 0;    // before that many, neither an end nor a stop token is chosen, and stop strings do not count
  std::vector<text::TokenId> eos_token_ids;  // the model's end of turn or text: not part of the answer
  bool ignore_eos = false;                   // end tokens are ordinary tokens
  std::vector<text::TokenId> stop_tokens;    // end the answer and are its last token
  std::vector<std::string> stop;             // the text ends before the first of them
  bool include_stop_str_in_output = false;   // the text ends behind it instead
  bool skip_special_tokens = true;           // in the text

  int64_t num_beams = 1;  // above 1: the most likely whole answer among so many kept at a time; it is reported when it is found
  int64_t num_return_sequences = 1;  // so many of the most likely, each an output of its own
  double length_penalty = 1.0;       // an answer's log-probability is divided by its length to this power
  EarlyStopping early_stopping = EarlyStopping::no;

  std::optional<int64_t>
      logprobs;  // of each chosen token and so many of the most likely; of the raw logits, before any setting above
  double logprobs_temperature = 1.0;             // divides the logits that `logprobs` are of; a trainer's are those of its own
  std::vector<text::TokenId> logprob_token_ids;  // with `logprobs`: of these tokens, too, whatever was chosen
  std::optional<int64_t> prompt_logprobs;        // the same for prompt tokens: for each, or from one of them on
  int64_t prompt_logprobs_start = 1;             // the first of them; what stands well before it may come from the prefix cache
};

}  // namespace hone::engine
