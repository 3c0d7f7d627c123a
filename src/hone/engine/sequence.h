// A running request: its tokens, how many of them are in the KV cache, and its sampler.
#pragma once
#include <optional>
#include <vector>

#include "hone/engine/block_manager.h"
#include "hone/engine/request.h"
#include "hone/engine/sampler.h"
#include "hone/engine/text_stream.h"

namespace hone::engine {

class BeamSearch;

struct Sequence {
  Sequence(RequestId id, Request request, int64_t queue_priority, const text::Tokenizer& tokenizer);

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  int64_t generated() const { return size() - prompt_size; }
  int64_t remaining() const { return size() - num_computed_tokens; }  // tokens without cached keys and values
  bool is_decoding() const { return remaining() == 1 && generated() > 0; }
  bool wants_prompt_logprobs() const { return request.sampling.prompt_logprobs.has_value() && generated() == 0; }

  RequestId id;
  int64_t queue_priority;  // lower first
  Request request;
  int64_t prompt_size;
  std::vector<text::TokenId> tokens;        // prompt and completion
  std::vector<text::TokenId> draft_tokens;  // speculative tokens, verified in the same step against the sampler
  Sampler sampler;
  std::optional<TextStream> text;

  bool running = false, scheduled = false;  // the scheduler's: admitted; part of the next step
  BeamSearch* search = nullptr;             // the search of a beam; null: not a beam
  bool waits_for_beams = false;             // a beam that waits for the others of its search
  std::vector<BlockId> blocks;
  int64_t state_slot = -1;                   // of its recurrent states; -1: none
  std::string cache_key;                     // separates equal tokens that are computed differently: adapter, images
  int64_t num_computed_tokens = 0;           // tokens whose keys and values are in the blocks
  int64_t published = 0;                     // full blocks that are in the prefix cache
  std::optional<int64_t> num_cached_tokens;  // prompt tokens found in the prefix cache when first admitted
  std::vector<PositionLogprobs> prompt_logprobs;

  // Appends the next token to the completion and to `output`, which gets a finish reason if it is the last.
  void advance(text::TokenId token, RequestOutput& output);
  // Takes over the tokens and derived state of another sequence; id, blocks and computed tokens stay.
  void take_over(Sequence&& other);

 private:
  void finish(FinishReason reason, RequestOutput& output);
};

}  // namespace hone::engine
