#include "hone/model/inference/fused_projection.h"

#include <algorithm>

#include "hone/device/memory.h"
#include "hone/model/causal_lm.h"
#include "hone/model/decoder.h"
#include "hone/model/inference/tensor_parallel_decoder.h"
#include "hone/ops/cpu/gemm/arm/interleaved_layout.h"
#include "hone/ops/cuda/thin_linear.h"
#include "hone/ops/linear/matmul.h"

namespace hone::model {
namespace {

// Concatenates the tensors and makes each a view of its part.
Tensor laid_end_to_end(const std::vector<Tensor*>& parts) {
  TensorList values;
  for (auto* part : parts) values.push_back(*part);
  auto whole = at::cat(values);
  int64_t begin = 0;
  for (auto* part : parts) {
    int64_t rows = part->size(0);
    // Trained parameters stay the same tensor objects and only get new storage.
    if (part->requires_grad())
      part->set_data(whole.narrow(0, begin, rows));
    else
      *part = whole.narrow(0, begin, rows);
    begin += rows;
  }
  return whole;
}

// The same for quantized weights, whose rows are independent.
std::shared_ptr<const ops::PackedWeight> rounded_end_to_end(const std::vector<Linear*>& layers) {
  std::vector<ops::PackedWeight> parts;
  for (auto* layer : layers) parts.push_back(*layer->quantized);
  std::vector<Tensor*> codes, scales;
  for (auto& part : parts) codes.push_back(&part.codes), scales.push_back(&part.scales);
  auto whole = std::make_shared<ops::PackedWeight>(parts.front());
  whole->codes = laid_end_to_end(codes);
  whole->scales = laid_end_to_end(scales);
  for (size_t i = 0; i < layers.size(); ++i) layers[i]->quantized = std::make_shared<const ops::PackedWeight>(parts[i]);
  return whole;
}

const Tensor& numbers_of(const Linear& layer) { return layer.quantized ? layer.quantized->codes : layer.weight; }

// Nothing trains the layer, and its weight is used unchanged.
bool is_free(const Linear* layer) {
  return !layer->weight.requires_grad() && !layer->is_tuned() && !layer->quantized && !layer->quantized_base;
}

// On a CPU, a step is bound by reading weights, and a mapped file uses small pages. Copies use huge pages if buffers are cached
// (device/memory.h). A model that fills the machine stays in its file, whose pages the system can drop.
void copy_weights_to_huge_pages(Decoder& decoder) {
  auto& head = decoder.head;
  if (!head.weight.is_cpu() || !is_free(&head)) return;
  int64_t bytes = 0;
  for (auto& parameter : decoder.tree().parameters()) bytes += static_cast<int64_t>(parameter.value->nbytes());
  auto use = device::memory_use(at::kCPU);
  if (bytes > (use.total - use.current) / 2) return;
  at::NoGradGuard no_grad;
  for (auto& block : decoder.blocks)
    for (auto* layer : {block.delta_net ? &block.delta_net->out : &block.attention.o, block.mlp ? &block.mlp->down : nullptr})
      if (layer && is_free(layer) && layer->weight.is_cpu()) layer->weight = layer->weight.clone();
  head.weight = head.weight.clone();
  if (decoder.config.tie_word_embeddings) decoder.embedding.weight = head.weight;
}

// Whether a fused product is faster on the block's device.
bool benefits_from_fusion(const Block& block) {
  const auto& own = block.delta_net ? block.delta_net->out : block.attention.q;
  if (own.quantized) return true;
  return block.delta_net ? own.weight.is_cpu() || own.weight.is_cuda() : ops::benefits_from_fused_qkv(own.weight, block.shape);
}

void fuse_block(Block& block) {
  if (!benefits_from_fusion(block)) return;
  auto is_rounded = [](const Linear* layer) {
    return layer->quantized && !layer->is_tuned() && ops::cpu::can_be_followed(layer->quantized->codes);
  };
  auto join = [&](FusedProjection& joined, std::vector<Linear*> layers) {
    if (std::ranges::all_of(layers, is_free) || std::ranges::all_of(layers, is_rounded)) joined = FusedProjection::of(layers);
  };
  auto& a = block.attention;
  // The products of a gated delta net stay separate.
  if (!block.delta_net && a.can_fuse() && !a.qkv.is_current_for({&a.q, &a.k, &a.v})) join(a.qkv, {&a.q, &a.k, &a.v});
  if (auto& mlp = block.mlp; mlp && !mlp->gate_up.is_current_for({&mlp->gate, &mlp->up}))
    join(mlp->gate_up, {&mlp->gate, &mlp->up});
}

}  // namespace

FusedProjection FusedProjection::of(const std::vector<Linear*>& layers) {
  at::NoGradGuard no_grad;
  FusedProjection joined;
  std::vector<Tensor*> weights, biases;
  for (auto* layer : layers) {
    weights.push_back(&layer->weight);
    if (layer->bias.defined()) biases.push_back(&layer->bias);
  }
  if (layers.front()->quantized)
    joined.rounded_ = rounded_end_to_end(layers);
  else
    joined.weight_ = laid_end_to_end(weights);
  if (biases.size() == layers.size()) joined.bias_ = laid_end_to_end(biases);
  return joined;
}

// The layers' own float8 weights become views of the joint one.
void FusedProjection::round_weights(const std::vector<Linear*>& layers) {
  float8_ = ops::float8_weight(weight_);
  int64_t begin = 0;
  for (auto* layer : layers) {
    layer->float8_weight = ops::float8_slice(float8_, begin, layer->weight.size(0));
    begin += layer->weight.size(0);
  }
}

bool FusedProjection::round_for_inference() {
  if (!weight_.defined() || !ops::supports_float8(weight_, weight_.size(0))) return false;
  float8_ = ops::float8_weight_forward(weight_);
  return true;
}

bool FusedProjection::lies_under(std::initializer_list<const Linear*> layers) const {
  if (!weight_.defined() && !rounded_) return false;
  const auto* place = static_cast<const std::byte*>((rounded_ ? rounded_->codes : weight_).const_data_ptr());
  for (const auto* layer : layers) {
    const auto& numbers = numbers_of(*layer);
    bool same = !layer->quantized == !rounded_ && layer->bias.defined() == bias_.defined();
    if (!same || numbers.const_data_ptr() != place) return false;
    place += numbers.nbytes();
  }
  return true;
}

bool FusedProjection::is_current_for(std::initializer_list<const Linear*> layers) const {
  return std::ranges::none_of(layers, [](const auto* layer) { return layer->is_tuned(); }) && lies_under(layers);
}

std::optional<ops::JointLayers> FusedProjection::joint_layers(std::initializer_list<const Linear*> layers, const Tensor& x_th,
                                                              const LinearContext& mode) const {
  if (!weight_.defined() || !at::GradMode::is_enabled() || mode.rows || !lies_under(layers)) return std::nullopt;
  ops::JointLayers joint{{}, weight_, bias_, float8_};
  for (const auto* layer : layers) {
    if (!layer->tuners.empty() || layer->rounds_weight() || layer->quantized_base) return std::nullopt;
    joint.layers.push_back({layer->weight, layer->bias, layer->adapters});
  }
  return ops::supports_joint(x_th, joint) ? std::optional(std::move(joint)) : std::nullopt;
}

TensorList FusedProjection::trained(std::initializer_list<const Linear*> layers, const Tensor& x_th, const LinearContext& mode,
                                    const ops::RopeTable* rope) const {
  auto joint = joint_layers(layers, x_th, mode);
  return joint ? ops::joint_linear(x_th, *joint, mode.training, rope) : TensorList();
}

TensorList FusedProjection::trained_gate_up(const Linear& gate, const Linear& up, const Tensor& x_th, const LinearContext& mode,
                                            ops::cuda::GateUpdates& updates) const {
  auto joint = joint_layers({&gate, &up}, x_th, mode);
  return joint ? ops::joint_gate_up(x_th, *joint, mode.training, updates) : TensorList();
}

Tensor FusedProjection::operator()(const Tensor& x_th) const {
  if (rounded_) return ops::quantized_linear(x_th, *rounded_, bias_);
  return ops::cuda::supports_thin(x_th, weight_) ? ops::matmul_nt(x_th, weight_, bias_)
                                                 : ops::base_product(x_th, weight_, float8_, bias_);
}

void fuse_projections(CausalLM& model) {
  if (!is_tensor_parallel(model)) copy_weights_to_huge_pages(model.decoder());
  for (auto* decoder : computing_decoders(model))
    for (auto& block : decoder->blocks) fuse_block(block);
}

void join_trained_projections(CausalLM& model) {
  if (!model.device().is_cuda() || is_tensor_parallel(model) || model.decoder().weight_hooks) return;
  auto is_plain = [](const Linear* layer) { return layer->tuners.empty() && !layer->quantized && !layer->quantized_base; };
  // Layers that are requantized, and pairs that contain one, stay separate.
  auto is_exact = [&](const Linear* layer) { return is_plain(layer) && !layer->float8; };
  auto is_float8 = [&](const Linear* layer) { return is_plain(layer) && layer->float8 && !layer->weight.requires_grad(); };
  auto round = [&](Linear& layer) {
    if (is_float8(&layer) && ops::supports_float8(layer.weight, layer.weight.size(0)))
      layer.float8_weight = ops::float8_weight(layer.weight);
  };
  auto join = [&](FusedProjection& joined, std::vector<Linear*> layers) {
    int64_t outputs = 0;
    for (const auto* layer : layers) outputs += layer->weight.size(0);
    const bool rounds = std::ranges::all_of(layers, is_float8) && ops::supports_float8(layers.front()->weight, outputs);
    if (rounds || std::ranges::all_of(layers, is_exact)) joined = FusedProjection::of(layers);
    if (rounds)
      joined.round_weights(layers);
    else
      for (auto* layer : layers) round(*layer);
  };
  for (auto& block : model.decoder().blocks) {
    if (block.delta_net) {
      for (auto& layer : block.delta_net->projections) round(layer);
      round(block.delta_net->out);
    } else {
      join(block.attention.qkv, {&block.attention.q, &block.attention.k, &block.attention.v});
      round(block.attention.o);
    }
    if (!block.mlp) continue;
    join(block.mlp->gate_up, {&block.mlp->gate, &block.mlp->up});
    round(block.mlp->down);
  }
}

}  // namespace hone::model
