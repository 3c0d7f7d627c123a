#include "hone/model/encoders/vision_tower.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "hone/ops/attention/rope.h"
#include "hone/ops/swiglu.h"

namespace hone::model {
namespace {

// What all blocks of one pass share.
struct VisionPass {
  ops::AttentionMetadata frames, windows;
  ops::RopeTable rope;  // undefined: nothing is turned
  ops::AttentionShape shape;
  LinearContext mode;
};

// Half of a head's angles turn by the row of a patch, half by its column.
ops::RopeTable patch_rotations(const VisionLayout& layout, const VisionConfig& config, at::Device device) {
  if (config.rope_theta == 0) return {};
  const int64_t quarter = config.head_dim() / 4;
  auto exponents = at::arange(0, quarter, at::kFloat) * 2 / static_cast<double>(2 * quarter);
  auto frequencies = (1.0 / at::pow(config.rope_theta, exponents)).unsqueeze(0);
  auto angles = at::cat(
      {layout.rows_p.to(at::kFloat).unsqueeze(1) * frequencies, layout.columns_p.to(at::kFloat).unsqueeze(1) * frequencies}, 1);
  return {angles.cos().to(device), angles.sin().to(device)};
}

Tensor activated(VisionActivation activation, const Tensor& x) {
  switch (activation) {
    case VisionActivation::quick_gelu:
      return x * at::sigmoid(1.702 * x);
    case VisionActivation::gelu_tanh:
      return at::gelu(x, "tanh");
    default:
      return at::gelu(x);
  }
}

std::vector<Tensor> projections(const VisionBlock& block, const Tensor& x_ph, const LinearContext& mode) {
  std::vector<Tensor> parts = block.qkv.name.empty() ? std::vector{block.q(x_ph, mode), block.k(x_ph, mode), block.v(x_ph, mode)}
                                                     : block.qkv(x_ph, mode).chunk(3, 1);
  if (block.q_norm) parts[0] = (*block.q_norm)(parts[0].contiguous());
  if (block.k_norm) parts[1] = (*block.k_norm)(parts[1].contiguous());
  for (auto& part : parts) part = part.contiguous();
  return parts;
}

Tensor attend_patches(const VisionBlock& block, const Tensor& x_ph, const VisionPass& pass, bool whole) {
  auto parts = projections(block, x_ph, pass.mode);
  if (pass.rope.cos.defined())
    for (size_t i = 0; i < 2; ++i) parts[i] = ops::rope(parts[i], pass.rope);
  return block.proj(ops::attention(parts[0], parts[1], parts[2], whole ? pass.frames : pass.windows, pass.shape), pass.mode);
}

Tensor scaled_by(const std::optional<Parameter>& scale, const Tensor& x) { return scale ? scale->weight * x : x; }

Tensor block_of_patches(const VisionBlock& block, const Tensor& x_ph, const VisionPass& pass, bool whole) {
  auto y_ph = x_ph + scaled_by(block.scale1, attend_patches(block, block.norm1(x_ph), pass, whole));
  auto normed_ph = block.norm2(y_ph);
  auto up = block.up(normed_ph, pass.mode);
  auto inner = block.activation == VisionActivation::swiglu ? ops::swiglu(block.gate(normed_ph, pass.mode), up)
                                                            : activated(block.activation, up);
  return y_ph + scaled_by(block.scale2, block.down(inner, pass.mode));
}

TensorList trained_of(const Module& module) {
  TensorList list;
  for (const auto& parameter : Unit{UnitKind::encoder, module}.parameters())
    if (parameter.value->defined() && parameter.value->requires_grad()) list.push_back(*parameter.value);
  return list;
}

// In front of every frame is a row of its own; all frames are of one size.
Tensor without_class_tokens(const Tensor& x_ph, int64_t frames) {
  const int64_t width = x_ph.size(1);
  return x_ph.view({frames, -1, width}).narrow(1, 1, x_ph.size(0) / frames - 1).reshape({-1, width});
}

}  // namespace

Tensor VisionMerger::operator()(const Tensor& x_ph, int64_t merge_unit, const LinearContext& mode) const {
  const int64_t cell = merge_unit * x_ph.size(1);
  const bool norms_cells = norm.weight.size(0) == cell;
  auto cells = norms_cells ? norm(x_ph.reshape({-1, cell})) : norm(x_ph).reshape({-1, cell});
  return last(at::gelu(first(cells, mode)), mode);
}

// The class token's position stands in front of the table, which is in rows from the top; patches are in the order of cells.
Tensor VisionTower::with_class_tokens(const Tensor& x_ph, const std::vector<PatchGrid>& grids) const {
  const int64_t side = config.position_grid, merge = config.merge_size, width = config.hidden_size;
  int64_t frames = 0;
  for (const auto& grid : grids) {
    HONE_CHECK(grid.height == side && grid.width == side, "a tile of {} x {} patches for positions of {}", grid.height,
               grid.width, side);
    frames += grid.frames;
  }
  const auto table = positions->weight.view({-1, width});
  auto by_cells = table.narrow(0, 1, side * side)
                      .view({side / merge, merge, side / merge, merge, width})
                      .permute({0, 2, 1, 3, 4})
                      .reshape({1, -1, width});
  auto patches = x_ph.view({frames, -1, width}) + by_cells;
  auto first = (class_token->weight + table.narrow(0, 0, 1).unsqueeze(0)).expand({frames, 1, width});
  return at::cat({first, patches}, 1).view({-1, width});
}

Tensor VisionTower::embed_patches(Tensor rows_pr, const VisionLayout& layout, const std::vector<PatchGrid>& grids,
                                  const LinearContext& mode) const {
  const auto device = patch_embed.weight.device();
  rows_pr = rows_pr.to(device, patch_embed.weight.scalar_type());
  if (layout.order_c.defined())
    rows_pr = rows_pr.view({-1, config.merge_unit(), rows_pr.size(1)})
                  .index_select(0, layout.order_c.to(device))
                  .view({-1, config.row_size()});
  auto x_ph = ops::lora_linear(rows_pr, patch_embed.weight.flatten(1), patch_embed.bias, {}, mode.training);
  if (config.has_class_token) return with_class_tokens(x_ph, grids);
  if (!positions) return x_ph;
  const auto learned = learned_positions(grids, config);
  auto rows = positions->weight.index_select(0, learned.rows_p4.view({-1}).to(device)).view({-1, 4, config.hidden_size});
  return x_ph + (rows * learned.weights_p4.to(device).unsqueeze(2)).sum(1).to(x_ph.scalar_type());
}

VisionFeatures VisionTower::forward(const Tensor& patches_pr, const std::vector<PatchGrid>& grids, const LinearContext& mode) {
  const bool trains = at::GradMode::is_enabled() && !trained_of(module()).empty();
  at::AutoGradMode graph(trains);
  const auto device = patch_embed.weight.device();
  const auto layout = vision_layout(grids, config);
  HONE_CHECK(layout.patches == patches_pr.size(0), "{} rows of patches for {}", patches_pr.size(0), layout.patches);
  auto pass = std::make_shared<VisionPass>(
      VisionPass{ops::attention_metadata(layout.frames, device),
                 ops::attention_metadata(layout.windows, device),
                 patch_rotations(layout, config, device),
                 {config.heads, config.heads, config.head_dim(), 1.0 / std::sqrt(static_cast<double>(config.head_dim()))},
                 mode});
  pass->shape.causal = false;
  auto merged = [&](const VisionMerger& merge, const Tensor& x_ph) {
    auto cells = merge(x_ph, config.merge_unit(), mode);
    return layout.inverse_c.defined() ? cells.index_select(0, layout.inverse_c.to(device)) : cells;
  };
  VisionFeatures features;
  auto x_ph = embed_patches(patches_pr, layout, grids, mode);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const bool whole = config.has_full_attention(static_cast<int64_t>(i));
    const auto& block = blocks[i];
    if (!trains || recompute == Recompute::none)
      x_ph = block_of_patches(block, x_ph, *pass, whole);
    else
      x_ph = checkpoint(
                 [&block, pass, whole](const Tensor& kept) { return TensorList{block_of_patches(block, kept, *pass, whole)}; },
                 x_ph, trained_of(const_cast<VisionBlock&>(block).module()))
                 .front();
    // Before the last merger, so that a backward pass comes to the tower through that one first.
    if (std::ranges::count(config.deepstack_blocks, static_cast<int64_t>(i)) > 0)
      features.deepstack.push_back(merged(deepstack[features.deepstack.size()], x_ph));
  }
  if (config.has_class_token) x_ph = without_class_tokens(x_ph, layout.frames.count());
  features.embeddings_nh = merged(merger, x_ph);
  return features;
}

}  // namespace hone::model
