// The input of an inference step: new tokens of several sequences whose earlier tokens are in the paged KV cache.
#pragma once
#include <span>
#include <string_view>

#include "hone/model/forward_input.h"
#include "hone/model/inference/recurrent_states.h"
#include "hone/ops/attention/paged_attention.h"

namespace hone::model {

// New tokens of one sequence, after `past` tokens in the cache. Its blocks have room for all of them.
struct PagedChunk {
  std::span<const text::TokenId> tokens;
  int64_t past = 0;
  std::span<const int32_t> blocks;
  std::string_view adapter = {};   // "": none
  Tensor positions_c = {};         // int64 [3, tokens]; undefined: those of the cache's places
  int64_t position_offset = 0;     // added to them where they are not given
  EncoderEmbeddings encoder = {};  // its rows are places among these tokens
  bool bidirectional = false;      // these rows attend to each other
  int64_t slot = 0;                // of its recurrent states
};

struct PagedInput {
  ForwardInput input;
  ops::PagedAttentionMetadata metadata;  // for PagedKvCache::set_metadata
  SequenceSlots slots;                   // the same
};

// On the host. Chunks of a single token come first (ops/attention/paged_attention.h).
PagedInput paged_input(std::span<const PagedChunk> chunks, int64_t block_size);

}  // namespace hone::model
