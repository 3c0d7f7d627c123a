// The modules of a vision tower by the names in its files: shapes without memory, filled by a loader.
#include "hone/model/encoders/vision_tower.h"

namespace hone::model {
namespace {

Linear vision_linear(const std::string& name, int64_t in, int64_t out, bool bias = true) {
  return {name, meta_tensor({out, in}), bias ? meta_tensor({out}) : Tensor(), {}};
}

Norm vision_norm(const std::string& name, int64_t width, double eps, bool bias) {
  Norm norm{name, meta_tensor({width}), eps};
  if (bias) norm.bias = meta_tensor({width});
  return norm;
}

void add_attention(VisionBlock& block, const VisionConfig& config) {
  const auto& names = config.names;
  const int64_t width = config.hidden_size;
  auto add = [&](const std::string& name, int64_t out) {
    return vision_linear(block.name + "." + name, width, out, config.has_qkv_bias);
  };
  if (!names.qkv.empty())
    block.qkv = add(names.qkv, 3 * width);
  else
    block.q = add(names.q, width), block.k = add(names.k, width), block.v = add(names.v, width);
  block.proj = vision_linear(block.name + "." + names.proj, width, width);
  if (!config.has_qk_norm) return;
  block.q_norm = vision_norm(block.name + "." + names.q_norm, width, 1e-6, false);
  block.k_norm = vision_norm(block.name + "." + names.k_norm, width, 1e-6, false);
}

VisionBlock vision_block(const VisionConfig& config, int64_t index) {
  const auto& names = config.names;
  const int64_t width = config.hidden_size, inner = config.intermediate_size;
  VisionBlock block;
  block.name = fmt::format("{}.{}.{}", names.tower, names.blocks, index);
  block.activation = config.activation;
  auto inside = [&](const std::string& name) { return block.name + "." + name; };
  block.norm1 = vision_norm(inside(names.norm1), width, config.norm_eps, config.has_norm_bias);
  block.norm2 = vision_norm(inside(names.norm2), width, config.norm_eps, config.has_norm_bias);
  add_attention(block, config);
  if (!names.gate.empty()) block.gate = vision_linear(inside(names.gate), width, inner);
  block.up = vision_linear(inside(names.up), width, inner);
  block.down = vision_linear(inside(names.down), inner, width);
  if (!names.scale1.empty()) block.scale1 = Parameter{inside(names.scale1), meta_tensor({width})};
  if (!names.scale2.empty()) block.scale2 = Parameter{inside(names.scale2), meta_tensor({width})};
  return block;
}

// Gemma 3's norm stores its weights as offsets from 1, like the norms of its decoder.
VisionMerger mean_merger(const VisionConfig& config) {
  const auto& names = config.names;
  VisionMerger merger{.name = names.merger, .kind = config.merger};
  merger.norm = vision_norm(names.merger + "." + names.merger_norm, config.hidden_size, config.merger_norm_eps, false);
  merger.norm.zero_centered = true;
  merger.projection =
      Parameter{names.merger + "." + names.merger_first, meta_tensor({config.hidden_size, config.out_hidden_size})};
  return merger;
}

VisionMerger words_merger(const VisionConfig& config) {
  const auto& names = config.names;
  VisionMerger merger{.name = names.merger, .kind = config.merger};
  merger.first =
      vision_linear(names.merger + "." + names.merger_first, config.merge_unit() * config.hidden_size, config.merger_size, false);
  merger.norm = vision_norm(names.merger + "." + names.merger_norm, config.merger_size, config.merger_norm_eps, true);
  return merger;
}

VisionMerger vision_merger(const std::string& name, const VisionConfig& config, bool norms_cells) {
  if (config.merger == MergerKind::mean) return mean_merger(config);
  if (config.merger == MergerKind::words) return words_merger(config);
  const auto& names = config.names;
  const int64_t cell = config.merge_unit() * config.hidden_size;
  // A projector's norm is a LayerNorm, whatever norm the blocks use.
  return {name,
          vision_norm(name + "." + names.merger_norm, norms_cells ? cell : config.hidden_size, config.merger_norm_eps,
                      config.has_norm_bias || config.norms_cells),
          vision_linear(name + "." + names.merger_first, cell, config.merger_size),
          vision_linear(name + "." + names.merger_last, config.merger_size, config.out_hidden_size),
          {},
          config.merger};
}

// The table of transformers' nn.Embedding, or, with a class token, a parameter whose first row is that token's position.
Parameter vision_positions(const VisionConfig& config) {
  const int64_t count = config.position_grid * config.position_grid;
  const auto name = config.names.tower + "." + config.names.positions;
  if (config.has_class_token) return {name, meta_tensor({1, count + 1, config.hidden_size})};
  return {name + ".weight", meta_tensor({count, config.hidden_size})};
}

Tensor patch_kernel(const VisionConfig& config) {
  const int64_t out = config.hidden_size, in = config.in_channels, side = config.patch_size;
  return config.temporal_patch_size == 1 ? meta_tensor({out, in, side, side})
                                         : meta_tensor({out, in, config.temporal_patch_size, side, side});
}

Module unadapted(Linear& layer) { return {.path = layer.name, .layer = &layer}; }

void append_layer(std::vector<Module>& list, Linear& layer) {
  if (!layer.name.empty()) list.push_back(module_of(layer));
}

template <class Part>
void append_part(std::vector<Module>& list, std::optional<Part>& part) {
  if (part) list.push_back(module_of(*part));
}

}  // namespace

Module VisionBlock::module() {
  Module root{.path = name, .children = {module_of(norm1), module_of(norm2)}};
  for (auto* layer : {&qkv, &q, &k, &v, &proj, &gate, &up, &down}) append_layer(root.children, *layer);
  append_part(root.children, q_norm), append_part(root.children, k_norm);
  append_part(root.children, scale1), append_part(root.children, scale2);
  return root;
}

Module VisionMerger::module() {
  Module root{.path = name, .children = {module_of(norm)}};
  append_layer(root.children, first), append_layer(root.children, last);
  append_part(root.children, projection);
  return root;
}

Module VisionTower::module() {
  Module root{.path = config.names.tower};
  root.children.push_back(unadapted(patch_embed));
  append_part(root.children, class_token), append_part(root.children, positions);
  for (auto& block : blocks) root.children.push_back(block.module());
  append_part(root.children, norm);
  root.children.push_back(merger.module());
  append_part(root.children, words);
  for (auto& one : deepstack) root.children.push_back(one.module());
  return root;
}

VisionTower vision_skeleton(const VisionConfig& config) {
  const auto& names = config.names;
  VisionTower tower;
  tower.config = config;
  tower.patch_embed = {names.tower + "." + names.patch_embed,
                       patch_kernel(config),
                       config.has_patch_bias ? meta_tensor({config.hidden_size}) : Tensor(),
                       {}};
  if (config.position_grid > 0) tower.positions = vision_positions(config);
  if (config.has_class_token)
    tower.class_token = Parameter{names.tower + "." + names.class_token, meta_tensor({1, 1, config.hidden_size})};
  for (int64_t i = 0; i < config.depth; ++i) tower.blocks.push_back(vision_block(config, i));
  if (!names.final_norm.empty())
    tower.norm = vision_norm(names.tower + "." + names.final_norm, config.hidden_size, config.norm_eps, config.has_norm_bias);
  if (!names.vocabulary.empty())
    tower.words = Parameter{names.vocabulary + ".weight", meta_tensor({config.visual_words, config.out_hidden_size})};
  tower.merger = vision_merger(names.merger, config, config.norms_cells);
  for (size_t i = 0; i < config.deepstack_blocks.size(); ++i)
    tower.deepstack.push_back(vision_merger(fmt::format("{}.{}", names.deepstack, i), config, true));
  return tower;
}

}  // namespace hone::model
