#include "hone/model/decoder.h"

#include <algorithm>
#include <cmath>

#include "hone/ops/linear/swiglu_linear.h"
#include "hone/ops/rms_norm.h"
#include "hone/ops/swiglu.h"

namespace hone::model {
namespace {

// Undefined tensors carry no shape; a skeleton's are empty tensors on the meta device.
Tensor placeholder(std::initializer_list<int64_t> shape) {
  return at::empty(shape, at::TensorOptions(at::kMeta).dtype(at::kFloat));
}

Linear linear(const std::string& name, int64_t in, int64_t out, bool bias) {
  return {name, placeholder({out, in}), bias ? placeholder({out}) : Tensor(), {}};
}

Norm norm(const std::string& name, int64_t width, const DecoderConfig& config) {
  return {name, placeholder({width}), config.norm_eps, config.zero_centered_norms};
}

Mlp mlp_skeleton(const DecoderConfig& config, const std::string& prefix, int64_t inner) {
  return {linear(prefix + "gate_proj", config.hidden_size, inner, config.mlp_bias),
          linear(prefix + "up_proj", config.hidden_size, inner, config.mlp_bias),
          linear(prefix + "down_proj", inner, config.hidden_size, config.mlp_bias),
          {},
          config.activation};
}

// An MLP, experts, or experts and the MLP that they share.
void add_mlp(Block& block, const DecoderConfig& config, const std::string& prefix) {
  if (!config.has_experts(block.layer)) {
    block.mlp = mlp_skeleton(config, prefix, config.intermediate_size);
    return;
  }
  const auto& experts = config.experts;
  auto& mixture = block.mixture.emplace();
  mixture.router = linear(prefix + "gate", config.hidden_size, experts.count, false);
  mixture.gate_up = {
      prefix + "experts.gate_up_proj", placeholder({experts.count, 2 * experts.width, config.hidden_size}), {}, {}};
  mixture.down = {prefix + "experts.down_proj", placeholder({experts.count, config.hidden_size, experts.width}), {}, {}};
  mixture.per_token = experts.num_experts_per_tok;
  mixture.normalized = experts.norm_topk_prob;
  mixture.jitter = experts.router_jitter_noise;
  if (experts.shared_expert_intermediate_size == 0) return;
  block.mlp = mlp_skeleton(config, prefix + "shared_expert.", experts.shared_expert_intermediate_size);
  block.shared_gate = linear(prefix + "shared_expert_gate", config.hidden_size, 1, false);
}

// With norms behind them too, the one before the MLP needs a name of its own.
void add_norms(Block& block, const DecoderConfig& config, const std::string& prefix) {
  auto add = [&](const char* name) { return norm(prefix + name, config.hidden_size, config); };
  block.input_norm = add("input_layernorm");
  block.pre_mlp_norm = add(config.has_post_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm");
  if (!config.has_post_norms) return;
  block.post_attention_norm = add("post_attention_layernorm");
  block.post_mlp_norm = add("post_feedforward_layernorm");
}

Block block_skeleton(const DecoderConfig& config, int64_t layer) {
  const auto& a = config.attention;
  auto prefix = fmt::format("model.layers.{}.", layer);
  int64_t q_width = a.heads * a.head_dim, kv_width = a.kv_heads * a.head_dim;
  Block block;
  block.layer = layer;
  const double scale = a.scale.value_or(1.0 / std::sqrt(static_cast<double>(a.head_dim)));
  block.shape = {a.heads, a.kv_heads, a.head_dim, scale, config.sliding_windows[static_cast<size_t>(layer)]};
  block.uses_local_rope = config.window_rope && block.shape.window > 0;
  block.residual_scale = config.residual_scale;
  add_norms(block, config, prefix);
  auto& attention = block.attention;
  attention.q = linear(prefix + "self_attn.q_proj", config.hidden_size, q_width, a.qkv_bias);
  attention.k = linear(prefix + "self_attn.k_proj", config.hidden_size, kv_width, a.qkv_bias);
  attention.v = linear(prefix + "self_attn.v_proj", config.hidden_size, kv_width, a.qkv_bias);
  attention.o = linear(prefix + "self_attn.o_proj", q_width, config.hidden_size, a.output_bias);
  if (a.qk_norm) {
    attention.q_norm = norm(prefix + "self_attn.q_norm", a.head_dim, config);
    attention.k_norm = norm(prefix + "self_attn.k_norm", a.head_dim, config);
  }
  add_mlp(block, config, prefix + "mlp.");
  return block;
}

void append(std::vector<NamedParameter>& list, Linear& linear) {
  list.push_back({linear.name + ".weight", &linear.weight});
  if (linear.bias.defined()) list.push_back({linear.name + ".bias", &linear.bias});
}

Tensor head_norm(const std::optional<Norm>& norm, const Tensor& x, int64_t head_dim) {
  return norm ? (*norm)(x.view({x.size(0), -1, head_dim})).reshape(x.sizes()) : x;
}

ops::QkNorm head_norms(const Attention& a) {
  return a.q_norm ? ops::QkNorm{a.q_norm->weight, a.k_norm->weight, a.q_norm->eps} : ops::QkNorm();
}

struct Heads {
  Tensor q, k, v;
};

// Queries and keys are normed where the family has it, and rotated.
Heads queries_keys_values(const Block& block, const Tensor& x_th, const ForwardContext& pass, const ops::RopeTable& rope) {
  const auto& a = block.attention;
  const bool turns_there =
      !a.q_norm && !a.k_norm && ops::rotates_in_place(x_th, rope);  // nothing stands between the product and the rotation
  auto parts = pass.cache ? TensorList() : a.qkv.trained({&a.q, &a.k, &a.v}, x_th, pass.mode, turns_there ? &rope : nullptr);
  if (parts.empty())
    parts = {a.q(x_th, pass.mode), a.k(x_th, pass.mode), a.v(x_th, pass.mode)};
  else if (turns_there)
    return {parts[0], parts[1], parts[2]};
  auto turned = [&](const std::optional<Norm>& norm, const Tensor& x) {
    return ops::rope(head_norm(norm, x, block.shape.head_dim), rope);
  };
  return {turned(a.q_norm, parts[0]), turned(a.k_norm, parts[1]), parts[2]};
}

Tensor attend(const Block& block, const Tensor& x_th, const ForwardContext& pass) {
  const auto& a = block.attention;
  const auto& rope = block.uses_local_rope ? pass.local_rope : pass.rope;
  if (pass.cache && a.qkv.is_current_for({&a.q, &a.k, &a.v}))
    return a.o(pass.cache->attend(block.layer, a.qkv(x_th), head_norms(a), rope, block.shape), pass.mode);
  auto [q, k, v] = queries_keys_values(block, x_th, pass, rope);
  if (pass.shifted) return a.o(ops::shifted_attention(q, k, v, *pass.shifted, block.shape), pass.mode);
  if (pass.split) return a.o(pass.split->attend(q, k, v, pass.plan, block.shape), pass.mode);
  return a.o(pass.cache ? pass.cache->attend(block.layer, q, k, v, block.shape) : ops::attention(q, k, v, pass.plan, block.shape),
             pass.mode);
}

Tensor gated(const Mlp& mlp, const Tensor& gate, const Tensor& up) {
  return mlp.activation == Activation::silu ? ops::swiglu(gate, up) : at::gelu(gate, "tanh") * up;
}

Tensor transform(const Mlp& mlp, const Tensor& x_th, const LinearContext& mode) {
  if (!at::GradMode::is_enabled() && mlp.gate_up.is_current_for({&mlp.gate, &mlp.up})) {
    auto both = mlp.gate_up(x_th).chunk(2, 1);
    return mlp.down(gated(mlp, both[0], both[1]), mode);
  }
  const bool fuses =
      at::GradMode::is_enabled() && mlp.activation == Activation::silu && mlp.down.tuners.empty() && !mlp.down.float8;
  ops::cuda::GateUpdates updates;  // what gate and up lack, where the next operator takes it along
  auto parts = fuses ? mlp.gate_up.trained_gate_up(mlp.gate, mlp.up, x_th, mode, updates)
                     : mlp.gate_up.trained({&mlp.gate, &mlp.up}, x_th, mode);
  if (parts.empty()) parts = {mlp.gate(x_th, mode), mlp.up(x_th, mode)};
  const auto &gate = parts[0], &up = parts[1];
  if (!fuses) return mlp.down(gated(mlp, gate, up), mode);
  auto down = mode.unread ? ops::swiglu_linear_unread : ops::swiglu_linear;
  return down(gate, up, mlp.down.compute_weight(), mlp.down.bias, mlp.down.adapters, mode.training, updates);
}

Tensor mix(const Block& block, const Tensor& x_th, const ForwardContext& pass) {
  auto y_th = (*block.mixture)(x_th, pass.mode, pass.router_logits);
  return block.mlp ? y_th + at::sigmoid((*block.shared_gate)(x_th, pass.mode)) * transform(*block.mlp, x_th, pass.mode) : y_th;
}

Tensor whole(const Tensor& result_th, const ForwardContext& pass) {
  return pass.sums ? pass.sums->all_reduce(result_th) : result_th;
}

// What a half of a block adds, out of what it computed.
Tensor addend(const Block& block, const std::optional<Norm>& behind, const Tensor& result_th) {
  auto normed_th = behind ? (*behind)(result_th) : result_th;
  return block.residual_scale == 1 ? normed_th : normed_th * block.residual_scale;
}

// x + added, and the norm of that.
ops::NormedSum normed_sum(const Norm& norm, const Tensor& x_th, const Tensor& added_th) {
  if (!norm.zero_centered && norm.scale == 1) return ops::add_rms_norm(x_th, added_th, norm.weight, norm.eps);
  auto sum_th = x_th + added_th;
  return {sum_th, norm(sum_th)};
}

// What each half of a block adds to x, out of x after the norm before it.
Tensor attention_addend(const Block& block, const Tensor& normed_th, const ForwardContext& pass) {
  return addend(block, block.post_attention_norm, whole(attend(block, normed_th, pass), pass));
}

Tensor mlp_addend(const Block& block, const Tensor& x_th, const Tensor& normed_th, const ForwardContext& pass) {
  if (block.mixture) return whole(mix(block, normed_th, pass), pass);
  auto mode = pass.mode;
  if (!block.post_mlp_norm && block.residual_scale == 1) mode.added_to = &x_th;
  // It ends the part that runs again: adding what it computes needs no values.
  mode.unread = runs_again() && !block.post_mlp_norm && !pass.sums;
  return addend(block, block.post_mlp_norm, whole(transform(*block.mlp, normed_th, mode), pass));
}

Tensor attention_half(const Block& block, const Tensor& x_th, const ForwardContext& pass) {
  return x_th + attention_addend(block, block.input_norm(x_th), pass);
}

Tensor mlp_half(const Block& block, const Tensor& x_th, const ForwardContext& pass) {
  return x_th + mlp_addend(block, x_th, block.pre_mlp_norm(x_th), pass);
}

// What a recomputed part gives: its answer, and what its router said where that is asked for.
TensorList with_router_logits(Tensor (*part)(const Block&, const Tensor&, const ForwardContext&), const Block& block,
                              const Tensor& x_th, const ForwardContext& pass) {
  TensorList logits;
  ForwardContext own = pass;
  if (pass.router_logits) own.router_logits = &logits;
  TensorList outputs{part(block, x_th, own)};
  outputs.insert(outputs.end(), logits.begin(), logits.end());
  return outputs;
}

}  // namespace

std::vector<Linear*> Block::linears() {
  std::vector<Linear*> list{&attention.q, &attention.k, &attention.v, &attention.o};
  if (mlp) list.insert(list.end(), {&mlp->gate, &mlp->up, &mlp->down});
  if (shared_gate) list.push_back(&*shared_gate);
  return list;
}

std::vector<AdapterSlot> Block::slots() {
  std::vector<AdapterSlot> list;
  for (auto* layer : linears()) list.push_back({layer->name, layer->name, SlotKind::linear, &layer->weight, &layer->adapters});
  if (mixture) mixture->append_slots(list);
  return list;
}

std::vector<Norm*> Block::norms() {
  std::vector<Norm*> list;
  auto add = [&](std::optional<Norm>& norm) {
    if (norm) list.push_back(&*norm);
  };
  add(attention.q_norm), add(attention.k_norm);
  list.push_back(&input_norm);
  add(post_attention_norm);
  list.push_back(&pre_mlp_norm);
  add(post_mlp_norm);
  return list;
}

std::vector<NamedParameter> Block::parameters() {
  std::vector<NamedParameter> list;
  const auto all_norms = norms();
  const auto of_heads = all_norms.begin() + (attention.q_norm ? 2 : 0);
  auto append_norm = [&](Norm* norm) { list.push_back({norm->name + ".weight", &norm->weight}); };
  for (auto* layer : {&attention.q, &attention.k, &attention.v, &attention.o}) append(list, *layer);
  std::for_each(all_norms.begin(), of_heads, append_norm);
  if (mixture) {
    append(list, mixture->router);
    for (auto* experts : {&mixture->gate_up, &mixture->down}) list.push_back({experts->name, &experts->weight});
  }
  if (mlp)
    for (auto* layer : {&mlp->gate, &mlp->up, &mlp->down}) append(list, *layer);
  if (shared_gate) append(list, *shared_gate);
  std::for_each(of_heads, all_norms.end(), append_norm);
  return list;
}

bool Block::draws() const {
  auto& self = const_cast<Block&>(*this);  // as in trained()
  auto slots_here = self.slots();
  auto drops = [](const AdapterSlot& slot) {
    return std::ranges::any_of(*slot.adapters, [](const auto& adapter) { return adapter.dropout > 0; });
  };
  return (mixture && mixture->jitter > 0) || std::ranges::any_of(slots_here, drops) ||
         std::ranges::any_of(self.linears(), [](const Linear* layer) { return !layer->tuners.empty(); });
}

TensorList Block::trained() const {
  TensorList list;
  auto add = [&](const Tensor& tensor) {
    if (tensor.defined() && tensor.requires_grad()) list.push_back(tensor);
  };
  auto& self = const_cast<Block&>(*this);  // the lists point at members so that tuners may replace them; here they are only read
  for (auto& parameter : self.parameters()) add(*parameter.value);
  for (auto& slot : self.slots())
    for (auto& adapter : *slot.adapters) add(adapter.a), add(adapter.b), add(adapter.magnitude);
  for (auto* layer : self.linears())
    for (auto& tuner : layer->tuners)
      for (auto& own : tuner->tensors()) add(*own.value);
  return list;
}

std::vector<NamedParameter> Decoder::parameters() {
  std::vector<NamedParameter> list{{embedding.name + ".weight", &embedding.weight}};
  for (auto& block : blocks) {
    auto more = block.parameters();
    list.insert(list.end(), more.begin(), more.end());
  }
  list.push_back({norm.name + ".weight", &norm.weight});
  if (!config.tie_word_embeddings) append(list, head);
  if (value_head) append(list, *value_head);
  return list;
}

Decoder decoder_skeleton(const DecoderConfig& config) {
  Decoder decoder{.config = config};
  decoder.embedding = {"model.embed_tokens", placeholder({config.vocab_size, config.hidden_size}), {}, config.embedding_scale};
  for (int64_t layer = 0; layer < config.layers; ++layer) decoder.blocks.push_back(block_skeleton(config, layer));
  decoder.norm = norm("model.norm", config.hidden_size, config);
  decoder.norm.scale = config.logits_scale;
  decoder.head = config.num_labels ? linear("score", config.hidden_size, config.num_labels, false)
                                   : linear("lm_head", config.hidden_size, config.vocab_size, false);
  return decoder;
}

Tensor block_forward(const Block& block, const Tensor& x_th, const ForwardContext& pass) {
  auto [sum_th, normed_th] = normed_sum(block.pre_mlp_norm, x_th, attention_addend(block, block.input_norm(x_th), pass));
  return sum_th + mlp_addend(block, sum_th, normed_th, pass);
}

ops::NormedSum block_forward(const Block& block, const ops::NormedSum& x, const Norm& next, const ForwardContext& pass) {
  auto [sum_th, normed_th] = normed_sum(block.pre_mlp_norm, x.sum, attention_addend(block, x.normed, pass));
  return normed_sum(next, sum_th, mlp_addend(block, sum_th, normed_th, pass));
}

Tensor block_forward(const Block& block, const Tensor& x_th, const std::shared_ptr<const ForwardContext>& pass, Recompute again) {
  const auto run = [&](Tensor (*part)(const Block&, const Tensor&, const ForwardContext&), const Tensor& x, Recompute name) {
    if (again != name) return part(block, x, *pass);
    auto outputs = checkpoint([part, &block, pass](const Tensor& kept) { return with_router_logits(part, block, kept, *pass); },
                              x, block.trained(), pass->store, block.draws());
    if (pass->router_logits) pass->router_logits->insert(pass->router_logits->end(), outputs.begin() + 1, outputs.end());
    return outputs.front();
  };
  if (again == Recompute::block) return run(block_forward, x_th, Recompute::block);
  return run(mlp_half, run(attention_half, x_th, Recompute::attention), Recompute::mlp);
}

}  // namespace hone::model
