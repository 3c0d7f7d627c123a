#include "hone/model/inference/paged_input.h"

namespace hone::model {
namespace {

// Adjacent chunks of one adapter form one range.
void append_adapter_rows(ops::LoraMapping& rows, std::string_view adapter, int64_t begin, int64_t end) {
  if (adapter.empty()) return;
  if (!rows.empty() && rows.back().adapter == adapter && rows.back().end == begin)
    rows.back().end = end;
  else
    rows.push_back({std::string(adapter), begin, end});
}

}  // namespace

PagedInput paged_input(std::span<const PagedChunk> chunks, int64_t block_size) {
  std::vector<int32_t> tokens, positions;
  std::vector<std::pair<int64_t, Tensor>> given;  // start of chunks with their own positions
  TensorList rows, embeddings;
  std::vector<TensorList> deepstack;  // by the block after which they are added
  std::vector<ops::PagedSequence> sequences;
  std::vector<ops::RowBlock> pictures;  // whose rows attend to each other
  PagedInput result;
  for (const auto& chunk : chunks) {
    const auto begin = static_cast<int64_t>(tokens.size()), count = static_cast<int64_t>(chunk.tokens.size());
    sequences.push_back({chunk.past, count, chunk.blocks});
    result.slots.slots.push_back(chunk.slot);
    result.slots.starts.push_back(chunk.past == 0);
    tokens.insert(tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
    for (int64_t i = 0; i < count; ++i) positions.push_back(static_cast<int32_t>(chunk.past + chunk.position_offset + i));
    if (chunk.positions_c.defined()) given.emplace_back(begin, chunk.positions_c);
    if (chunk.bidirectional)
      for (const auto& block : row_blocks(chunk.encoder.rows_n, {})) pictures.push_back({begin + block.begin, begin + block.end});
    if (!chunk.encoder.empty()) {
      rows.push_back(chunk.encoder.rows_n + begin);
      embeddings.push_back(chunk.encoder.embeddings_nh);
      deepstack.resize(chunk.encoder.deepstack.size());  // the same for all chunks: they come from one tower
      for (size_t i = 0; i < deepstack.size(); ++i) deepstack[i].push_back(chunk.encoder.deepstack[i]);
    }
    append_adapter_rows(result.input.adapters, chunk.adapter, begin, begin + count);
  }
  result.metadata = ops::paged_attention_metadata(sequences, block_size, at::kCPU);
  result.metadata.blocks = std::move(pictures);
  result.input.tokens_t = at::tensor(tokens, at::kInt);
  result.input.positions_t = at::tensor(positions, at::kInt);
  if (!given.empty()) {
    result.input.positions_t = result.input.positions_t.expand({3, -1}).clone();
    for (const auto& [begin, own] : given) result.input.positions_t.narrow(1, begin, own.size(1)).copy_(own);
  }
  if (!rows.empty()) result.input.encoder = {at::cat(rows), at::cat(embeddings), {}};
  for (const auto& additions : deepstack) result.input.encoder.deepstack.push_back(at::cat(additions));
  result.input.segments = result.metadata.segments;
  return result;
}

}  // namespace hone::model
