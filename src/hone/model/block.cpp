#include "hone/model/block.h"

#include <algorithm>
#include <cmath>

#include "hone/base/error.h"
#include "hone/model/forward_context.h"
#include "hone/ops/linear/swiglu_linear.h"
#include "hone/ops/rms_norm.h"
#include "hone/ops/swiglu.h"

namespace hone::model {
namespace {

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('.')); }

Module attention_module(Attention& attention) {
  Module group{.path = parent_of(attention.q.name)};
  for (auto* layer : {&attention.q, &attention.k, &attention.v, &attention.o}) group.children.push_back(module_of(*layer));
  for (auto* norm : {&attention.q_norm, &attention.k_norm})
    if (*norm) group.children.push_back(module_of(**norm));
  return group;
}

Module mlp_module(Mlp& mlp) {
  return {.path = parent_of(mlp.gate.name), .children = {module_of(mlp.gate), module_of(mlp.up), module_of(mlp.down)}};
}

// Experts and their shared MLP belong to one group.
Module sparse_module(Block& block) {
  auto group = module_of(*block.moe);
  if (block.mlp) group.children.push_back(mlp_module(*block.mlp));
  if (block.shared_gate) group.children.push_back(module_of(*block.shared_gate));
  return group;
}

Tensor head_norm(const std::optional<Norm>& norm, const Tensor& x, int64_t head_dim) {
  return norm ? (*norm)(x.view({x.size(0), -1, head_dim})).reshape(x.sizes()) : x;
}

// Splits the output of q into queries, which stay, and gates, which it returns; of each head, the queries come first. Undefined
// without gates.
Tensor split_gate(const Block& block, Tensor& q) {
  if (!block.attention.has_gate) return {};
  const auto halves = q.view({q.size(0), -1, 2, block.shape.head_dim}).unbind(2);
  q = halves[0].reshape({q.size(0), -1});
  return halves[1].reshape(q.sizes());
}

// Normalizes queries and keys if the family does, and applies rotary embeddings.
ops::QueriesKeysValues queries_keys_values(const Block& block, const Tensor& x_th, const ForwardContext& context,
                                           const ops::RopeTable& rope, Tensor& gate) {
  const auto& a = block.attention;
  const bool rotates_in_projection =
      !a.q_norm && !a.k_norm && ops::rotates_in_place(x_th, rope);  // nothing is between the projection and the rotation
  auto parts = context.cache ? TensorList()
                             : a.qkv.trained({&a.q, &a.k, &a.v}, x_th, context.linear, rotates_in_projection ? &rope : nullptr);
  if (parts.empty())
    parts = {a.q(x_th, context.linear), a.k(x_th, context.linear), a.v(x_th, context.linear)};
  else if (rotates_in_projection)
    return {parts[0], parts[1], parts[2]};
  gate = split_gate(block, parts[0]);
  if (a.q_norm && a.k_norm && a.q_norm->is_plain_rms() && a.k_norm->is_plain_rms())
    return ops::qk_norm_rope({parts[0], parts[1], parts[2]}, a.norms(), rope);
  auto rotated = [&](const std::optional<Norm>& norm, const Tensor& x) {
    return ops::partial_rope(head_norm(norm, x, block.shape.head_dim), rope, block.shape.head_dim);
  };
  return {rotated(a.q_norm, parts[0]), rotated(a.k_norm, parts[1]), parts[2]};
}

Tensor select_output_rows(const Tensor& x_th, const ForwardContext& context) {
  return context.output_rows_r.defined() ? x_th.index_select(0, context.output_rows_r) : x_th;
}

Tensor softmax_attention(const Block& block, const Tensor& x_th, const ForwardContext& context) {
  const auto& a = block.attention;
  const auto& rope = block.uses_local_rope ? context.local_rope : context.rope;
  if (context.cache && a.can_fuse() && a.qkv.is_current_for({&a.q, &a.k, &a.v}))
    return a.o(select_output_rows(context.cache->attend(block.layer, a.qkv(x_th), a.norms(), rope, block.shape), context),
               context.linear);
  Tensor gate;
  auto [q, k, v] = queries_keys_values(block, x_th, context, rope, gate);
  const auto output = [&](const Tensor& y) {
    return a.o(select_output_rows(gate.defined() ? y * at::sigmoid(gate) : y, context), context.linear);
  };
  if (context.shifted_attention) return output(ops::shifted_attention(q, k, v, *context.shifted_attention, block.shape));
  if (context.distributed_attention)
    return output(context.distributed_attention->attend(q, k, v, context.attention, block.shape));
  return output(context.cache ? context.cache->attend(block.layer, q, k, v, block.shape)
                              : ops::attention(q, k, v, context.attention, block.shape));
}

Tensor linear_attention(const Block& block, const Tensor& x_th, const ForwardContext& context) {
  const auto& net = *block.delta_net;
  HONE_CHECK(!context.distributed_attention && !context.region && !context.shifted_attention, "{} needs full sequences",
             net.name);
  HONE_CHECK(!context.cache || context.states, "{} has no state to continue", net.name);
  const auto slots = context.states ? context.states->of(block.layer) : ops::StateSlots();
  const auto y_th = net.mix(x_th, context.linear, *context.linear_attention, context.states ? &slots : nullptr);
  return net.out(select_output_rows(y_th, context), context.linear);
}

Tensor attend(const Block& block, const Tensor& x_th, const ForwardContext& context) {
  const auto compute = block.delta_net ? linear_attention : softmax_attention;
  if (!context.observer) return compute(block, x_th, context);
  const ObservedModule module(context.observer, block.delta_net ? block.delta_net->name : parent_of(block.attention.q.name),
                              x_th);
  auto y_th = compute(block, x_th, context);
  module.end(y_th);
  return y_th;
}

Tensor gated_activation(const Mlp& mlp, const Tensor& gate, const Tensor& up) {
  return mlp.activation == Activation::silu ? ops::swiglu(gate, up) : at::gelu(gate, "tanh") * up;
}

Tensor joint_gated_activation(const Mlp& mlp, const Tensor& both) {
  if (both.is_cpu() && mlp.activation == Activation::silu) return ops::swiglu_halves(both);
  const auto halves = both.chunk(2, 1);
  return gated_activation(mlp, halves[0], halves[1]);
}

Tensor mlp_forward(const Mlp& mlp, const Tensor& x_th, const LinearContext& mode) {
  if (!at::GradMode::is_enabled() && mlp.gate_up.is_current_for({&mlp.gate, &mlp.up})) {
    return mlp.down(joint_gated_activation(mlp, mlp.gate_up(x_th)), mode);
  }
  const bool fuses =
      at::GradMode::is_enabled() && mlp.activation == Activation::silu && mlp.down.tuners.empty() && !mlp.down.rounds_weight();
  ops::cuda::GateUpdates updates;  // low-rank updates of gate and up that the next operator adds
  auto parts = fuses ? mlp.gate_up.trained_gate_up(mlp.gate, mlp.up, x_th, mode, updates)
                     : mlp.gate_up.trained({&mlp.gate, &mlp.up}, x_th, mode);
  if (parts.empty()) parts = {mlp.gate(x_th, mode), mlp.up(x_th, mode)};
  const auto &gate = parts[0], &up = parts[1];
  if (!fuses) return mlp.down(gated_activation(mlp, gate, up), mode);
  auto down = mode.unread ? ops::swiglu_linear_unread : ops::swiglu_linear;
  return down(gate, up, mlp.down.compute_weight(), mlp.down.bias, mlp.down.adapters, mode.training, updates,
              mlp.down.float8_weight);
}

// Experts of an earlier pass for this block's tokens, in order. Undefined: the router chooses.
Tensor replayed_experts(const Block& block, const ForwardContext& context) {
  return context.routed_experts_tlk.defined() ? context.routed_experts_tlk.select(1, block.moe->moe_layer) : Tensor();
}

Tensor moe_forward(const Block& block, const Tensor& x_th, const ForwardContext& context) {
  auto y_th =
      (*block.moe)(x_th, context.linear, context.router_logits, /*drops=*/!context.cache, replayed_experts(block, context));
  return block.mlp
             ? y_th + at::sigmoid((*block.shared_gate)(x_th, context.linear)) * mlp_forward(*block.mlp, x_th, context.linear)
             : y_th;
}

// The input of column-parallel layers, and the sum of the outputs of row-parallel ones (tensor_parallel/region.h).
Tensor layer_input(const Tensor& x_th, const ForwardContext& context) {
  return context.region ? context.region->enter(x_th, context.rope.cos.size(0)) : x_th;  // local rows: segments may have more
}

Tensor sum_over_ranks(const Tensor& partial_th, const ForwardContext& context) {
  return context.region ? context.region->leave(partial_th) : partial_th;
}

// This rank's rows with Megatron's sequence parallelism. Routers choose for padding.
Tensor padded_rows_of_rank(const Tensor& values_tk, const TensorParallelRegion& region) {
  const auto [begin, end] = region.own_rows(values_tk.size(0));
  const auto here_tk = values_tk.slice(0, begin, end);
  return at::constant_pad_nd(here_tk, {0, 0, 0, end - begin - here_tk.size(0)}, -1);
}

// Tokens are dispatched from the local rows to their experts. Load balancing uses all rows, and the shared MLP is sharded like
// that of a dense block.
Tensor moe_forward_dispatched(const Block& block, const Tensor& x_th, const ForwardContext& context) {
  TensorList logits;
  auto routed_tk = replayed_experts(block, context);
  if (routed_tk.defined() && context.region) routed_tk = padded_rows_of_rank(routed_tk, *context.region);
  auto y_th = (*block.moe)(x_th, context.linear, context.router_logits ? &logits : nullptr, /*drops=*/!context.cache, routed_tk,
                           context.expert_dispatcher);
  for (const auto& logits_te : logits) context.router_logits->push_back(layer_input(logits_te, context));
  if (!block.mlp) return y_th;
  const auto read_th = layer_input(x_th, context);
  auto shared_th = at::sigmoid((*block.shared_gate)(read_th, context.linear)) * mlp_forward(*block.mlp, read_th, context.linear);
  return y_th + sum_over_ranks(shared_th, context);
}

// The contribution of half a block (attention or MLP) to the residual stream, from the output of its layers.
Tensor scaled_output(const Block& block, const std::optional<Norm>& post_norm, const Tensor& output_th) {
  auto normed_th = post_norm ? (*post_norm)(output_th) : output_th;
  return block.residual_scale == 1 ? normed_th : normed_th * block.residual_scale;
}

// The sum of x and the output of a half, and its norm.
ops::NormedSum normed_sum(const Norm& norm, const Tensor& x_th, const Tensor& added_th) {
  if (norm.is_plain_rms()) return ops::add_rms_norm(x_th, added_th, norm.weight, norm.eps);
  if (norm.is_zero_centered_rms()) return ops::add_zero_centered_rms_norm(x_th, added_th, norm.weight, norm.eps);
  auto sum_th = x_th + added_th;
  return {sum_th, norm(sum_th)};
}

// The contribution of each half of a block to the residual stream x, from x after its norm.
Tensor attention_output(const Block& block, const Tensor& normed_th, const ForwardContext& context) {
  return scaled_output(block, block.post_attention_norm,
                       sum_over_ranks(attend(block, layer_input(normed_th, context), context), context));
}

Tensor unobserved_mlp_output(const Block& block, const Tensor& x_th, const Tensor& normed_th, const ForwardContext& context) {
  if (block.moe && context.expert_dispatcher) return moe_forward_dispatched(block, normed_th, context);
  const auto read_th = layer_input(normed_th, context);
  if (block.moe) return sum_over_ranks(moe_forward(block, read_th, context), context);
  auto linear = context.linear;
  if (!block.post_mlp_norm && block.residual_scale == 1) linear.added_to = &x_th;
  // It ends the recomputed part: the addition needs no saved values.
  linear.unread = runs_again() && !block.post_mlp_norm && !context.region;
  return scaled_output(block, block.post_mlp_norm, sum_over_ranks(mlp_forward(*block.mlp, read_th, linear), context));
}

Tensor mlp_output(const Block& block, const Tensor& x_th, const Tensor& normed_th, const ForwardContext& context) {
  if (!context.observer) return unobserved_mlp_output(block, x_th, normed_th, context);
  const ObservedModule module(context.observer, parent_of(block.moe ? block.moe->router.name : block.mlp->gate.name), normed_th);
  auto y_th = unobserved_mlp_output(block, x_th, normed_th, context);
  module.end(y_th);
  return y_th;
}

Tensor attention_half(const Block& block, const Tensor& x_th, const ForwardContext& context) {
  return select_output_rows(x_th, context) + attention_output(block, block.input_norm(x_th), context);
}

Tensor mlp_half(const Block& block, const Tensor& x_th, const ForwardContext& context) {
  return x_th + mlp_output(block, x_th, block.pre_mlp_norm(x_th), context);
}

// The outputs of a recomputed part: hidden states, and router logits if requested.
TensorList with_router_logits(Tensor (*part)(const Block&, const Tensor&, const ForwardContext&), const Block& block,
                              const Tensor& x_th, const ForwardContext& context) {
  TensorList logits;
  ForwardContext own_context = context;
  if (context.router_logits) own_context.router_logits = &logits;
  TensorList outputs{part(block, x_th, own_context)};
  outputs.insert(outputs.end(), logits.begin(), logits.end());
  return outputs;
}

}  // namespace

Module Block::module() {
  Module group{.path = name};
  group.children.push_back(delta_net ? delta_net->module() : attention_module(attention));
  group.children.push_back(moe ? sparse_module(*this) : mlp_module(*mlp));
  group.children.push_back(module_of(input_norm));
  if (post_attention_norm) group.children.push_back(module_of(*post_attention_norm));
  group.children.push_back(module_of(pre_mlp_norm));
  if (post_mlp_norm) group.children.push_back(module_of(*post_mlp_norm));
  return group;
}

bool Block::uses_random_numbers() const {
  const auto tree = const_cast<Block&>(*this).module();  // as in trained_parameters()
  auto drops = [](const AdapterSlot& slot) {
    return std::ranges::any_of(*slot.adapters, [](const auto& adapter) { return adapter.dropout > 0; });
  };
  return (moe && moe->jitter > 0) || std::ranges::any_of(tree.slots(), drops) ||
         std::ranges::any_of(tree.linears(), [](const Linear* layer) { return !layer->tuners.empty(); });
}

TensorList Block::trained_parameters() const {
  // The tree points to members so that tuners may replace them; here they are only read.
  return Unit{UnitKind::block, const_cast<Block&>(*this).module()}.trained_parameters();
}

Tensor block_forward(const Block& block, const Tensor& x_th, const ForwardContext& context) {
  auto [sum_th, normed_th] =
      normed_sum(block.pre_mlp_norm, select_output_rows(x_th, context), attention_output(block, block.input_norm(x_th), context));
  return sum_th + mlp_output(block, sum_th, normed_th, context);
}

ops::NormedSum block_forward(const Block& block, const ops::NormedSum& x, const Norm& next, const ForwardContext& context) {
  auto [sum_th, normed_th] =
      normed_sum(block.pre_mlp_norm, select_output_rows(x.sum, context), attention_output(block, x.normed, context));
  return normed_sum(next, sum_th, mlp_output(block, sum_th, normed_th, context));
}

Tensor block_forward(const Block& block, const Tensor& x_th, const std::shared_ptr<const ForwardContext>& context,
                     Recompute recomputed) {
  const auto run = [&](Tensor (*part)(const Block&, const Tensor&, const ForwardContext&), const Tensor& x, Recompute name) {
    if (recomputed != name) return part(block, x, *context);
    auto outputs =
        checkpoint([part, &block, context](const Tensor& kept) { return with_router_logits(part, block, kept, *context); }, x,
                   block.trained_parameters(), context->offloader, block.uses_random_numbers());
    if (context->router_logits) context->router_logits->insert(context->router_logits->end(), outputs.begin() + 1, outputs.end());
    return outputs.front();
  };
  if (recomputed == Recompute::block) return run(block_forward, x_th, Recompute::block);
  return run(mlp_half, run(attention_half, x_th, Recompute::attention), Recompute::mlp);
}

}  // namespace hone::model
