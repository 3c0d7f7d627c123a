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
  Sequence(RequestId id, Request request, int64_t rank, const text::Tokenizer& tokenizer);

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  int64_t generated() const { return size() - prompt_size; }
  int64_t remaining() const { return size() - num_computed_tokens; }  // tokens whose keys are not in the cache yet
  bool is_decoding() const { return remaining() == 1 && generated() > 0; }
  bool wants_prompt_logprobs() const { return request.sampling.prompt_logprobs.has_value() && generated() == 0; }

  RequestId id;
  int64_t queue_priority;  // lower goes first
  Request request;
  int64_t prompt_size;
  std::vector<text::TokenId> tokens;  // prompt and answer
  std::vector<text::TokenId>
      draft_tokens;  // what may follow, computed in the same step and checked against what the sampler chooses
  Sampler sampler;
  std::optional<TextStream> text;

  bool running = false, scheduled = false;  // the scheduler's: admitted; part of the step being made
  BeamSearch* search = nullptr;             // whose beam it is, if it is one
  bool waits_for_beams = false;             // a beam that waits for the others of its search: nothing of it is computed
  std::vector<BlockId> blocks;
  std::string cache_key;            // sets apart what is computed differently from equal tokens: the adapter, the pictures
  int64_t num_computed_tokens = 0;  // tokens whose keys and values are in the blocks
  int64_t published = 0;            // blocks
  std::optional<int64_t> num_cached_tokens;  // prompt tokens found in the prefix cache when first admitted
  std::vector<PositionLogprobs> prompt_logprobs;

  // Takes the next token: what it adds to the answer goes into `output`, which gets a finish reason when it was the last.
  void advance(text::TokenId token, RequestOutput& output);
  void take_over(
      Sequence&& other);  // takes over another's tokens and what follows from them; id, blocks and what is computed stay

 private:
  void finish(FinishReason reason, RequestOutput& output);
};

}  // namespace hone::engine
