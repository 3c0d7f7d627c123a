// How a GPU's decode attention is shared out: the positions of all sequences in chunks of one length, so that the work of a block
// of threads depends on no sequence's length.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace hone::ops {

constexpr int64_t most_decode_chunks(int64_t sequences) { return sequences + 264; }
// Numbers in a list of so many sequences at most.
constexpr int64_t decode_chunk_room(int64_t sequences) { return 3 + sequences + most_decode_chunks(sequences); }

// The length of a chunk, their number, each sequence's first chunk and the end of the last, and the sequence of every chunk.
// Sequences beyond the lengths have none.
std::vector<int32_t> decode_chunks(std::span<const int64_t> lengths, int64_t sequences);

}  // namespace hone::ops
