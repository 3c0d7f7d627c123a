#include "hone/model/decoder.h"

#include "hone/base/error.h"

namespace hone::model {
namespace {

// Undefined tensors have no shape; those of a skeleton are empty tensors on the meta device.
Linear linear(const std::string& name, int64_t in, int64_t out, bool bias) {
  return {name, meta_tensor({out, in}), bias ? meta_tensor({out}) : Tensor(), {}};
}

Norm norm(const std::string& name, int64_t width, const DecoderConfig& config) {
  return {name, meta_tensor({width}), config.norm_eps, config.zero_centered_norms};
}

Mlp mlp_skeleton(const DecoderConfig& config, const std::string& prefix, int64_t inner) {
  const auto& names = config.names;
  return {linear(prefix + names.gate, config.hidden_size, inner, config.mlp_bias),
          linear(prefix + names.up, config.hidden_size, inner, config.mlp_bias),
          linear(prefix + names.down, inner, config.hidden_size, config.mlp_bias),
          {},
          config.activation};
}

// An MLP, experts, or experts and their shared MLP.
void add_mlp(Block& block, const DecoderConfig& config, const std::string& prefix) {
  if (!config.has_experts(block.layer)) {
    block.mlp = mlp_skeleton(config, prefix, config.intermediate_size);
    return;
  }
  const auto& experts = config.experts;
  auto& moe = block.moe.emplace();
  moe.router = linear(prefix + "gate", config.hidden_size, experts.count, false);
  moe.gate_up = {prefix + "experts.gate_up_proj", meta_tensor({experts.count, 2 * experts.width, config.hidden_size}), {}, {}};
  moe.down = {prefix + "experts.down_proj", meta_tensor({experts.count, config.hidden_size, experts.width}), {}, {}};
  moe.per_token = experts.num_experts_per_tok;
  for (int64_t layer = 0; layer < block.layer; ++layer) moe.moe_layer += config.has_experts(layer);
  moe.normalized = experts.norm_topk_prob;
  moe.jitter = experts.router_jitter_noise;
  if (experts.shared_expert_intermediate_size == 0) return;
  block.mlp = mlp_skeleton(config, prefix + "shared_expert.", experts.shared_expert_intermediate_size);
  block.shared_gate = linear(prefix + "shared_expert_gate", config.hidden_size, 1, false);
}

void add_norms(Block& block, const DecoderConfig& config, const std::string& prefix) {
  auto add = [&](const std::string& name) { return norm(prefix + name, config.hidden_size, config); };
  block.input_norm = add(config.names.input_norm);
  block.pre_mlp_norm = add(config.names.pre_mlp_norm);
  if (!config.has_post_norms) return;
  block.post_attention_norm = add(config.names.post_attention_norm);
  block.post_mlp_norm = add(config.names.post_mlp_norm);
}

void add_attention(Block& block, const DecoderConfig& config, const std::string& prefix) {
  const auto& a = config.attention;
  const auto& names = config.names;
  const int64_t width = a.heads * a.head_dim, kv_width = a.kv_heads * a.head_dim;
  auto& attention = block.attention;
  attention.has_gate = a.output_gate;
  attention.q = linear(prefix + names.q, config.hidden_size, a.q_width(), a.qkv_bias);
  attention.k = linear(prefix + names.k, config.hidden_size, kv_width, a.qkv_bias);
  attention.v = linear(prefix + names.v, config.hidden_size, kv_width, a.qkv_bias);
  attention.o = linear(prefix + names.o, width, config.hidden_size, a.output_bias);
  if (!a.qk_norm) return;
  attention.q_norm = norm(prefix + names.q_norm, a.head_dim, config);
  attention.k_norm = norm(prefix + names.k_norm, a.head_dim, config);
}

Block block_skeleton(const DecoderConfig& config, int64_t layer) {
  const auto& a = config.attention;
  Block block;
  block.name = config.names.block(layer);
  block.layer = layer;
  const double scale = a.scale.value_or(1.0 / std::sqrt(static_cast<double>(a.head_dim)));
  block.shape = {a.heads, a.kv_heads, a.head_dim, scale, config.sliding_windows[static_cast<size_t>(layer)]};
  block.uses_local_rope = config.window_rope && block.shape.window > 0;
  block.residual_scale = config.residual_scale;
  add_norms(block, config, block.name + ".");
  if (config.is_linear(layer))
    block.delta_net = gated_delta_net_skeleton(config, block.name + ".");
  else
    add_attention(block, config, fmt::format("{}.{}.", block.name, config.names.attention));
  add_mlp(block, config, fmt::format("{}.{}.", block.name, config.names.mlp));
  return block;
}

}  // namespace

std::vector<Unit> Decoder::units() {
  std::vector<Unit> list{{UnitKind::embedding, module_of(embedding)}};
  for (auto& block : blocks) list.push_back({UnitKind::block, block.module()});
  list.push_back({UnitKind::final_norm, module_of(norm)});
  list.push_back({UnitKind::head, module_of(head)});
  list.back().module.is_tied = config.tie_word_embeddings;
  if (value_head) {
    list.push_back({UnitKind::head, module_of(*value_head)});
    list.back().module.slot.reset();
  }
  if (vision) list.push_back({UnitKind::encoder, vision->module()});
  if (audio) list.push_back({UnitKind::encoder, audio->module()});
  return list;
}

Module Decoder::tree() {
  Module root;
  for (auto& unit : units()) root.children.push_back(std::move(unit.module));
  return root;
}

Decoder decoder_skeleton(const DecoderConfig& config) {
  Decoder decoder{.config = config};
  const auto& names = config.names;
  decoder.embedding = {
      names.model + "." + names.embedding, meta_tensor({config.vocab_size, config.hidden_size}), {}, config.embedding_scale};
  for (int64_t layer = 0; layer < config.layers; ++layer) decoder.blocks.push_back(block_skeleton(config, layer));
  decoder.norm = norm(names.model + "." + names.final_norm, config.hidden_size, config);
  decoder.norm.scale = config.logits_scale;
  if (config.vision) decoder.vision = vision_skeleton(*config.vision);
  if (config.audio) decoder.audio = audio_skeleton(*config.audio);
  decoder.head = config.num_labels ? linear(names.classifier, config.hidden_size, config.num_labels, false)
                                   : linear(names.head, config.hidden_size, config.vocab_size, false);
  return decoder;
}

}  // namespace hone::model
