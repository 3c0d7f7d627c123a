#include "hone/model/encoders/vision_tower.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "hone/ops/attention/rope.h"
#include "hone/ops/swiglu.h"

namespace hone::model {
namespace {

constexpr double kVisionNormEps = 1e-6;

Tensor vision_placeholder(std::initializer_list<int64_t> shape) {
  return at::empty(shape, at::TensorOptions(at::kMeta).dtype(at::kFloat));
}

Linear vision_linear(const std::string& name, int64_t in, int64_t out) {
  return {name, vision_placeholder({out, in}), vision_placeholder({out}), {}};
}

Norm vision_norm(const std::string& name, const VisionConfig& config) {
  Norm norm{name, vision_placeholder({config.hidden_size}), kVisionNormEps};
  if (!config.gated_mlp) norm.bias = vision_placeholder({config.hidden_size});
  return norm;
}

VisionBlock vision_block(const VisionConfig& config, int64_t index) {
  VisionBlock block;
  block.name = fmt::format("{}.blocks.{}", config.name, index);
  block.norm1 = vision_norm(block.name + ".norm1", config);
  block.norm2 = vision_norm(block.name + ".norm2", config);
  block.qkv = vision_linear(block.name + ".attn.qkv", config.hidden_size, 3 * config.hidden_size);
  block.proj = vision_linear(block.name + ".attn.proj", config.hidden_size, config.hidden_size);
  const char *up = config.gated_mlp ? ".mlp.up_proj" : ".mlp.fc1", *down = config.gated_mlp ? ".mlp.down_proj" : ".mlp.fc2";
  if (config.gated_mlp) block.gate = vision_linear(block.name + ".mlp.gate_proj", config.hidden_size, config.intermediate_size);
  block.up = vision_linear(block.name + up, config.hidden_size, config.intermediate_size);
  block.down = vision_linear(block.name + down, config.intermediate_size, config.hidden_size);
  return block;
}

// What all blocks of one pass share.
struct VisionPass {
  ops::AttentionMetadata frames, windows;
  ops::RopeTable rope;
  ops::AttentionShape shape;
  LinearContext mode;
};

// Half of a head's angles turn by the row of a patch, half by its column.
ops::RopeTable patch_rotations(const VisionLayout& layout, const VisionConfig& config, at::Device device) {
  const int64_t quarter = config.head_dim() / 4;
  auto exponents = at::arange(0, quarter, at::kFloat) * 2 / static_cast<double>(2 * quarter);
  auto frequencies = (1.0 / at::pow(config.rope_theta, exponents)).unsqueeze(0);
  auto angles = at::cat(
      {layout.rows_p.to(at::kFloat).unsqueeze(1) * frequencies, layout.columns_p.to(at::kFloat).unsqueeze(1) * frequencies}, 1);
  return {angles.cos().to(device), angles.sin().to(device)};
}

Tensor quick_gelu(const Tensor& x) { return x * at::sigmoid(1.702 * x); }

Tensor attend_patches(const VisionBlock& block, const Tensor& x_ph, const VisionPass& pass, bool whole) {
  auto parts = block.qkv(x_ph, pass.mode).chunk(3, 1);
  auto q = ops::rope(parts[0].contiguous(), pass.rope), k = ops::rope(parts[1].contiguous(), pass.rope);
  return block.proj(ops::attention(q, k, parts[2].contiguous(), whole ? pass.frames : pass.windows, pass.shape), pass.mode);
}

Tensor block_of_patches(const VisionBlock& block, const Tensor& x_ph, const VisionPass& pass, bool whole) {
  auto y_ph = x_ph + attend_patches(block, block.norm1(x_ph), pass, whole);
  auto normed_ph = block.norm2(y_ph);
  auto up = block.up(normed_ph, pass.mode);
  auto inner = block.gate.name.empty() ? quick_gelu(up) : ops::swiglu(block.gate(normed_ph, pass.mode), up);
  return y_ph + block.down(inner, pass.mode);
}

TensorList trained_of(const Module& module) {
  TensorList list;
  for (const auto& parameter : Unit{UnitKind::encoder, module}.parameters())
    if (parameter.value->defined() && parameter.value->requires_grad()) list.push_back(*parameter.value);
  return list;
}

Module unadapted(Linear& layer) { return {.path = layer.name, .layer = &layer}; }

}  // namespace

Module VisionBlock::module() {
  Module mlp{.path = name + ".mlp"};
  if (!gate.name.empty()) mlp.children.push_back(module_of(gate));
  mlp.children.push_back(module_of(up));
  mlp.children.push_back(module_of(down));
  Module attention{.path = name + ".attn", .children = {module_of(qkv), module_of(proj)}};
  return {.path = name, .children = {module_of(norm1), module_of(norm2), std::move(attention), std::move(mlp)}};
}

Module VisionTower::module() {
  Module root{.path = config.name};
  root.children.push_back(unadapted(patch_embed));
  for (auto& block : blocks) root.children.push_back(block.module());
  root.children.push_back(
      {.path = config.name + ".merger", .children = {module_of(merger_norm), module_of(merger_first), module_of(merger_last)}});
  return root;
}

Tensor VisionTower::forward(const Tensor& patches_pr, const std::vector<PatchGrid>& grids, const LinearContext& mode) {
  const auto tree = module();
  const bool trains = at::GradMode::is_enabled() && !trained_of(tree).empty();
  at::AutoGradMode graph(trains);
  const auto device = patch_embed.weight.device();
  const auto layout = vision_layout(grids, config);
  const int64_t unit = config.merge_unit();
  HONE_CHECK(layout.frames.total() == patches_pr.size(0), "{} rows of patches for {}", patches_pr.size(0), layout.frames.total());
  auto pass = std::make_shared<VisionPass>(
      VisionPass{ops::attention_metadata(layout.frames, device),
                 ops::attention_metadata(layout.windows, device),
                 patch_rotations(layout, config, device),
                 {config.heads, config.heads, config.head_dim(), 1.0 / std::sqrt(static_cast<double>(config.head_dim()))},
                 mode});
  pass->shape.causal = false;
  auto rows_pr = patches_pr.to(device, patch_embed.weight.scalar_type());
  if (layout.order_c.defined())
    rows_pr = rows_pr.view({-1, unit, rows_pr.size(1)}).index_select(0, layout.order_c.to(device)).view({-1, config.row_size()});
  auto x_ph = ops::lora_linear(rows_pr, patch_embed.weight.flatten(1), {}, {}, mode.training);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const bool whole = config.has_full_attention(static_cast<int64_t>(i));
    const auto& block = blocks[i];
    if (!trains || recompute == Recompute::none) {
      x_ph = block_of_patches(block, x_ph, *pass, whole);
      continue;
    }
    x_ph =
        checkpoint([&block, pass, whole](const Tensor& kept) { return TensorList{block_of_patches(block, kept, *pass, whole)}; },
                   x_ph, trained_of(const_cast<VisionBlock&>(block).module()))
            .front();
  }
  auto cells = merger_norm(x_ph).reshape({-1, unit * config.hidden_size});
  auto merged = merger_last(at::gelu(merger_first(cells, mode)), mode);
  return layout.inverse_c.defined() ? merged.index_select(0, layout.inverse_c.to(device)) : merged;
}

VisionTower vision_skeleton(const VisionConfig& config) {
  VisionTower tower;
  tower.config = config;
  tower.patch_embed = {config.name + ".patch_embed.proj",
                       vision_placeholder({config.hidden_size, config.in_channels, config.temporal_patch_size, config.patch_size,
                                           config.patch_size}),
                       {},
                       {}};
  for (int64_t i = 0; i < config.depth; ++i) tower.blocks.push_back(vision_block(config, i));
  const int64_t cell = config.merge_unit() * config.hidden_size;
  tower.merger_norm = vision_norm(config.name + ".merger.ln_q", config);
  tower.merger_first = vision_linear(config.name + ".merger.mlp.0", cell, cell);
  tower.merger_last = vision_linear(config.name + ".merger.mlp.2", cell, config.out_hidden_size);
  return tower;
}

}  // namespace hone::model
