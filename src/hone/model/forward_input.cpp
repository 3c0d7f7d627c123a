#include "hone/model/forward_input.h"

#include <algorithm>

#include "hone/base/error.h"

namespace hone::model {
namespace {

Tensor moved_to(const Tensor& tensor, at::Device device) { return tensor.defined() ? tensor.to(device) : tensor; }

}  // namespace

EncoderEmbeddings EncoderEmbeddings::to(at::Device device) const {
  EncoderEmbeddings moved{moved_to(rows_n, device), moved_to(embeddings_nh, device), deepstack};
  for (auto& addition : moved.deepstack) addition = addition.to(device);
  return moved;
}

EncoderEmbeddings EncoderEmbeddings::within(int64_t begin, int64_t end) const {
  if (empty()) return {};
  const auto here = at::logical_and(rows_n >= begin, rows_n < end).nonzero().squeeze(1);
  auto chosen = [&](const Tensor& features_nh) { return features_nh.index_select(0, here.to(features_nh.device())); };
  EncoderEmbeddings part{rows_n.index_select(0, here) - begin, embeddings_nh.defined() ? chosen(embeddings_nh) : Tensor(), {}};
  for (const auto& addition : deepstack) part.deepstack.push_back(chosen(addition));
  return part;
}

Tensor EncoderEmbeddings::replace_rows(const Tensor& x_th) const {
  if (empty()) return x_th;
  HONE_CHECK(embeddings_nh.size(0) == rows_n.size(0), "{} embeddings of an encoder for {} rows", embeddings_nh.size(0),
             rows_n.size(0));
  return x_th.index_copy(0, rows_n, embeddings_nh.to(x_th.scalar_type()));
}

Tensor EncoderEmbeddings::add_deepstack(const Tensor& x_th, size_t block) const {
  if (!adds_after(block)) return x_th;
  return x_th.index_add(0, rows_n.to(x_th.device()), deepstack[block].to(x_th.options()));
}

Tensor ForwardInput::media_rows() const {
  if (images.empty() || audio.empty()) return images.empty() ? audio.rows_n : images.rows_n;
  return at::cat({images.rows_n, audio.rows_n});
}

ForwardInput ForwardInput::to(at::Device device) const {
  ForwardInput moved = *this;
  for (auto* tensor : {&moved.tokens_t, &moved.positions_t, &moved.offsets_s, &moved.embeddings_th, &moved.output_rows_r,
                       &moved.routed_experts_tlk})
    *tensor = moved_to(*tensor, device);
  moved.encoder = encoder.to(device);
  moved.images.patches_pr = moved_to(images.patches_pr, device);
  moved.images.rows_n = moved_to(images.rows_n, device);
  moved.audio.frames_fm = moved_to(audio.frames_fm, device);
  moved.audio.rows_n = moved_to(audio.rows_n, device);
  return moved;
}

std::vector<ops::RowBlock> row_blocks(const Tensor& rows_n, const ops::CuSeqlens& segments) {
  const auto rows = rows_n.to(at::kCPU, at::kLong).contiguous();
  std::vector<ops::RowBlock> blocks;
  for (int64_t i = 0; i < rows.numel(); ++i) {
    const int64_t row = rows.const_data_ptr<int64_t>()[i];
    const bool begins_segment = std::ranges::binary_search(segments.offsets, row);
    if (!blocks.empty() && blocks.back().end == row && !begins_segment)
      ++blocks.back().end;
    else
      blocks.push_back({row, row + 1});
  }
  return blocks;
}

ForwardInput packed_texts(const std::vector<std::vector<text::TokenId>>& texts, at::Device device) {
  std::vector<int64_t> tokens, positions;
  ForwardInput input;
  for (const auto& text : texts) {
    for (size_t i = 0; i < text.size(); ++i) tokens.push_back(text[i]), positions.push_back(static_cast<int64_t>(i));
    input.segments.append(static_cast<int64_t>(text.size()));
  }
  input.tokens_t = at::tensor(tokens, at::kLong).to(device);
  input.positions_t = at::tensor(positions, at::kLong).to(device);
  return input;
}

}  // namespace hone::model
