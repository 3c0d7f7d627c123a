// The input of a forward pass: one packed row of tokens, or of embeddings, with positions and segments. train/methods builds it
// from a batch, inference/paged_input.h from an engine step, packed_texts from token ids.
#pragma once
#include <vector>

#include "hone/ops/attention/attention.h"
#include "hone/ops/linear/multi_lora.h"
#include "hone/ops/patch_grid.h"
#include "hone/text/tokenizer.h"

namespace hone::model {

// Rows of images, videos or audio: an encoder computes them in place of the token embedding.
struct EncoderEmbeddings {
  Tensor rows_n;         // int64 [N]: the rows of the input, each once; undefined: there are none
  Tensor embeddings_nh;  // [N, hidden], differentiable
  TensorList deepstack;  // [N, hidden] each: added to these rows after the first block, after the second, …

  bool empty() const { return !rows_n.defined(); }
  EncoderEmbeddings to(at::Device device) const;
  // Those of rows [begin, end), relative to `begin`. If there are none, the towers still get zero gradients.
  EncoderEmbeddings within(int64_t begin, int64_t end) const;
  Tensor replace_rows(const Tensor& x_th) const;  // of the token embeddings
  bool adds_after(size_t block) const { return !empty() && block < deepstack.size(); }
  Tensor add_deepstack(const Tensor& x_th, size_t block) const;  // to the output of this block
};

using ops::PatchGrid;

// Images for the model's own tower, in the order of their rows.
struct ImageInput {
  Tensor patches_pr;             // [patches, row size]; undefined: there are none
  std::vector<PatchGrid> grids;  // of each picture
  Tensor rows_n;                 // int64: the rows of the input

  bool empty() const { return !patches_pr.defined() || patches_pr.numel() == 0; }
};

// Audio for the model's own tower, in the order of its rows.
struct AudioInput {
  Tensor frames_fm;              // [frames, mel bins]; undefined: there are none
  std::vector<int64_t> lengths;  // of each recording, in frames
  Tensor rows_n;                 // int64: the rows of the input

  bool empty() const { return !frames_fm.defined() || frames_fm.numel() == 0; }
};

// One packed row of T positions, its tensors on the model's device.
struct ForwardInput {
  Tensor tokens_t;     // int64 or int32 [T]; undefined where embeddings_th is given
  Tensor positions_t;  // int64 or int32 [T], or [3, T] for models with M-RoPE
  ops::CuSeqlens segments;
  ops::LoraMapping adapters = {};                        // inference: rows that add an adapter which is not active for all
  Tensor offsets_s = {};                                 // the segments' offsets where they are on the device already (int32)
  Tensor embeddings_th = {};                             // [T, hidden], differentiable: what goes into the first block
  EncoderEmbeddings encoder = {};                        // replaces rows of the embedding
  ImageInput images = {};                                // the tower computes what replaces their rows
  AudioInput audio = {};                                 // the same
  std::vector<ops::AttentionKind> attention_kinds = {};  // of each segment; empty: all causal
  std::vector<ops::RowBlock> attention_blocks = {};      // pictures whose rows see each other
  Tensor output_rows_r = {};                             // ascending: the rows whose hidden states are wanted; undefined: all
  Tensor routed_experts_tlk = {};                        // int64 [T, layers with experts, k]: router replay (ops::route_to)

  int64_t size() const { return positions_t.size(-1); }
  bool has_media() const { return !images.empty() || !audio.empty(); }
  Tensor media_rows() const;  // int64 [N]: rows of images, then those of audio; undefined: it has no media
  ForwardInput to(at::Device device) const;
};

// Adjacent rows of images, grouped by segment.
std::vector<ops::RowBlock> row_blocks(const Tensor& rows_n, const ops::CuSeqlens& segments);

// Several texts as one packed row.
ForwardInput packed_texts(const std::vector<std::vector<text::TokenId>>& texts, at::Device device);

}  // namespace hone::model
