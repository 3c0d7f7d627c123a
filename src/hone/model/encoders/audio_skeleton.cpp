// The modules of an audio tower by the names in its files: shapes without memory, filled by a loader.
#include "hone/model/encoders/audio_tower.h"

namespace hone::model {
namespace {

Linear audio_linear(const std::string& name, int64_t in, int64_t out, bool bias = true) {
  return {name, meta_tensor({out, in}), bias ? meta_tensor({out}) : Tensor(), {}};
}

Norm audio_norm(const std::string& name, int64_t width) {
  Norm norm{name, meta_tensor({width}), 1e-5};
  norm.bias = meta_tensor({width});
  return norm;
}

AudioBlock audio_block(const AudioConfig& config, int64_t index) {
  const int64_t width = config.hidden_size;
  AudioBlock block;
  block.name = fmt::format("{}.layers.{}", config.tower, index);
  auto inside = [&](const char* name) { return block.name + "." + name; };
  block.q = audio_linear(inside("self_attn.q_proj"), width, width);
  block.k = audio_linear(inside("self_attn.k_proj"), width, width, config.has_key_bias);
  block.v = audio_linear(inside("self_attn.v_proj"), width, width);
  block.out = audio_linear(inside("self_attn.out_proj"), width, width);
  block.attention_norm = audio_norm(inside("self_attn_layer_norm"), width);
  block.fc1 = audio_linear(inside("fc1"), width, config.intermediate_size);
  block.fc2 = audio_linear(inside("fc2"), config.intermediate_size, width);
  block.mlp_norm = audio_norm(inside("final_layer_norm"), width);
  return block;
}

// Convolutions have no adapters.
Module without_slot(Linear& layer) { return {.path = layer.name, .layer = &layer}; }

}  // namespace

Module AudioBlock::module() {
  Module root{.path = name};
  for (auto* layer : {&q, &k, &v, &out, &fc1, &fc2}) root.children.push_back(module_of(*layer));
  root.children.push_back(module_of(attention_norm));
  root.children.push_back(module_of(mlp_norm));
  return root;
}

Module AudioTower::module() {
  Module root{.path = config.tower};
  for (auto& layer : convolutions) root.children.push_back(without_slot(layer));
  if (conv_out) root.children.push_back(module_of(*conv_out));
  for (auto& block : blocks) root.children.push_back(block.module());
  root.children.push_back(module_of(norm));
  for (auto& layer : projector) root.children.push_back(module_of(layer));
  return root;
}

AudioTower audio_skeleton(const AudioConfig& config) {
  AudioTower tower;
  tower.config = config;
  const int64_t width = config.hidden_size, channels = config.image_channels;
  auto inside = [&](const char* name) { return config.tower + "." + name; };
  auto convolution = [&](const char* name, std::vector<int64_t> kernel) {
    const int64_t out = kernel.front();
    tower.convolutions.push_back({inside(name), meta_tensor(kernel), meta_tensor({out}), {}});
  };
  if (config.pools_pairs()) {
    convolution("conv1", {width, config.mel_bins, 3});
    convolution("conv2", {width, width, 3});
    tower.projector = {audio_linear(inside("proj"), width, config.out_hidden_size)};
  } else {
    convolution("conv2d1", {channels, 1, 3, 3});
    convolution("conv2d2", {channels, channels, 3, 3});
    convolution("conv2d3", {channels, channels, 3, 3});
    tower.conv_out = audio_linear(inside("conv_out"), channels * config.image_bins(), width, false);
    tower.projector = {audio_linear(inside("proj1"), width, width), audio_linear(inside("proj2"), width, config.out_hidden_size)};
  }
  for (int64_t i = 0; i < config.layers; ++i) tower.blocks.push_back(audio_block(config, i));
  tower.norm = audio_norm(inside("ln_post"), width);
  return tower;
}

}  // namespace hone::model
