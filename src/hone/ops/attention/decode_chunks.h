// Work split of GPU decode attention: the positions of all sequences in chunks of equal length, so that the work of a thread
// block does not depend on the length of a sequence.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace hone::ops {

constexpr int64_t most_decode_chunks(int64_t sequences) { return sequences + 264; }
// Size of the list for at most this many sequences.
constexpr int64_t decode_chunk_room(int64_t sequences) { return 3 + sequences + most_decode_chunks(sequences); }

// The chunk length, the number of chunks, each sequence's first chunk and the end of the last, and the sequence of every chunk.
// Padding sequences have none.
std::vector<int32_t> decode_chunks(std::span<const int64_t> lengths, int64_t sequences);

}  // namespace hone::ops
