#include "hone/model/encoders/vision_tower.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "hone/base/error.h"
#include "hone/ops/attention/rope.h"
#include "hone/ops/swiglu.h"

namespace hone::model {
namespace {

// Inputs shared by all blocks of a pass.
struct VisionPass {
  ops::AttentionMetadata frames, windows;
  ops::RopeTable rope;  // undefined: no rotary embedding
  ops::AttentionShape shape;
  LinearContext mode;
};

// Half of a head's angles depend on the row of a patch, half on its column.
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

// Every frame starts with a class token; all frames have the same size.
Tensor without_class_tokens(const Tensor& x_ph, int64_t frames) {
  const int64_t width = x_ph.size(1);
  return x_ph.view({frames, -1, width}).narrow(1, 1, x_ph.size(0) / frames - 1).reshape({-1, width});
}

}  // namespace

Tensor VisionMerger::operator()(const Tensor& x_ph, int64_t merge_unit, const LinearContext& mode) const {
  const int64_t cell = merge_unit * x_ph.size(1);
  if (kind == MergerKind::mean) return at::matmul(norm(x_ph.reshape({-1, merge_unit, x_ph.size(1)}).mean(1)), projection->weight);
  if (kind == MergerKind::words) {
    auto scores_nw = norm(first(x_ph.reshape({-1, cell}), mode));
    return at::softmax(scores_nw, -1, at::kFloat).to(scores_nw.scalar_type());
  }
  const bool norms_cells = norm.weight.size(0) == cell;
  auto cells = norms_cells ? norm(x_ph.reshape({-1, cell})) : norm(x_ph).reshape({-1, cell});
  return last(at::gelu(first(cells, mode)), mode);
}

// A table in row-major order, rearranged to the order of cells.
static Tensor table_by_cells(const Tensor& table_ph, int64_t height, int64_t width, int64_t merge) {
  const int64_t hidden = table_ph.size(-1);
  return table_ph.view({height / merge, merge, width / merge, merge, hidden}).permute({0, 2, 1, 3, 4}).reshape({-1, hidden});
}

static int64_t frames_of(const std::vector<PatchGrid>& grids) {
  int64_t frames = 0;
  for (const auto& grid : grids) frames += grid.frames;
  return frames;
}

// The class token's position is the first of the table.
Tensor VisionTower::with_class_tokens(const Tensor& x_ph, const std::vector<PatchGrid>& grids) const {
  const int64_t side = config.position_grid, width = config.hidden_size, frames = frames_of(grids);
  const auto table = positions->weight.view({-1, width});
  auto patches = x_ph.view({frames, -1, width}) + table_by_cells(table.narrow(0, 1, side * side), side, side, config.merge_size);
  auto first = (class_token->weight + table.narrow(0, 0, 1).unsqueeze(0)).expand({frames, 1, width});
  return at::cat({first, patches}, 1).view({-1, width});
}

// Interpolation weights [to, from] from `from` positions in a row to `to`. Products with them run on every device and have
// gradients; not every device has the operator.
static Tensor bicubic_weights(int64_t from, int64_t to) {
  return at::upsample_bicubic2d(at::eye(from).view({1, 1, from, from}), {to, from}, /*align_corners=*/false).view({to, from});
}

Tensor VisionTower::with_positions(const Tensor& x_ph, const std::vector<PatchGrid>& grids) const {
  const int64_t side = config.position_grid, width = config.hidden_size, merge = config.merge_size;
  const auto& table = positions->weight;
  if (config.has_fixed_grid)
    return (x_ph.view({frames_of(grids), -1, width}) + table_by_cells(table, side, side, merge)).view({-1, width});
  if (config.position_resize == PositionResize::bicubic) {
    const auto square = table.to(at::kFloat).view({side, side * width});
    TensorList own;
    for (const auto& grid : grids) {
      const auto across = bicubic_weights(side, grid.width).to(table.device());
      const auto down = bicubic_weights(side, grid.height).to(table.device()).mm(square).view({grid.height, side, width});
      own.push_back(
          table_by_cells(at::matmul(across, down).contiguous(), grid.height, grid.width, merge).repeat({grid.frames, 1}));
    }
    return x_ph + at::cat(own).to(x_ph.scalar_type());
  }
  const auto learned = learned_positions(grids, config);
  const auto device = table.device();
  auto rows = table.index_select(0, learned.rows_p4.view({-1}).to(device)).view({-1, 4, width});
  return x_ph + (rows * learned.weights_p4.to(device).unsqueeze(2)).sum(1).to(x_ph.scalar_type());
}

Tensor VisionTower::embed_patches(Tensor rows_pr, const VisionLayout& layout, const std::vector<PatchGrid>& grids,
                                  const LinearContext& mode) const {
  const auto device = patch_embed.weight.device();
  for (const auto& grid : grids)
    HONE_CHECK(!config.has_fixed_grid || (grid.height == config.position_grid && grid.width == config.position_grid),
               "a picture of {} x {} patches for positions of {}", grid.height, grid.width, config.position_grid);
  rows_pr = rows_pr.to(device, patch_embed.weight.scalar_type());
  auto weight = patch_embed.weight;
  if (rows_pr.size(1) < config.row_size() && weight.scalar_type() == at::kFloat)
    weight = weight.sum(2);  // of equal frames; in 16 bits the sum would be rounded
  else
    rows_pr = repeat_frames(rows_pr, config.row_size(), config.in_channels);
  auto x_ph = ops::lora_linear(rows_pr, weight.flatten(1), patch_embed.bias, {}, mode.training);
  if (config.has_class_token) return with_class_tokens(x_ph, grids);
  if (positions) x_ph = with_positions(x_ph, grids);
  if (!layout.order_c.defined()) return x_ph;
  return x_ph.view({-1, config.merge_unit(), config.hidden_size})
      .index_select(0, layout.order_c.to(device))
      .view({-1, config.hidden_size});
}

// The last rows of the table are the markers: start and end of an image, of a video.
Tensor VisionTower::with_marks(const Tensor& words_nh, const std::vector<PatchGrid>& grids) const {
  const auto& table = words->weight;
  auto mark = [&](int64_t from_end) { return table.narrow(0, table.size(0) - from_end, 1); };
  TensorList rows;
  int64_t begin = 0;
  for (const auto& grid : grids) {
    const int64_t cells = grid.frames * grid.height * grid.width / config.merge_unit();
    const int64_t start = grid.is_video ? 2 : 4;
    rows.insert(rows.end(), {mark(start), words_nh.narrow(0, begin, cells), mark(start - 1)});
    begin += cells;
  }
  return at::cat(rows);
}

VisionFeatures VisionTower::forward(const Tensor& patches_pr, const std::vector<PatchGrid>& grids, const LinearContext& mode) {
  const bool trains = at::GradMode::is_enabled() && !Unit{UnitKind::encoder, module()}.trained_parameters().empty();
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
                 x_ph, Unit{UnitKind::encoder, const_cast<VisionBlock&>(block).module()}.trained_parameters())
                 .front();
    // Before the last merger, so that the backward pass reaches the tower through that merger first.
    if (std::ranges::count(config.deepstack_blocks, static_cast<int64_t>(i)) > 0)
      features.deepstack.push_back(merged(deepstack[features.deepstack.size()], x_ph));
  }
  if (config.has_class_token) x_ph = without_class_tokens(x_ph, layout.frames.count());
  if (norm) x_ph = (*norm)(x_ph);
  features.embeddings_nh = merged(merger, x_ph);
  if (words)
    features.embeddings_nh =
        with_marks(at::matmul(features.embeddings_nh, words->weight.narrow(0, 0, config.merger_size)), grids);
  return features;
}

}  // namespace hone::model
