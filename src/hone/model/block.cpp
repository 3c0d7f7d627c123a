#include "hone/model/block.h"

#include <algorithm>
#include <cmath>

#include "hone/base/error.h"
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
  auto group = module_of(*block.mixture);
  if (block.mlp) group.children.push_back(mlp_module(*block.mlp));
  if (block.shared_gate) group.children.push_back(module_of(*block.shared_gate));
  return group;
}

Tensor head_norm(const std::optional<Norm>& norm, const Tensor& x, int64_t head_dim) {
  return norm ? (*norm)(x.view({x.size(0), -1, head_dim})).reshape(x.sizes()) : x;
}

// Takes the gates out of what q gives: of each head, first the queries, then the gates. Undefined: it gives none.
Tensor split_gate(const Block& block, Tensor& q) {
  if (!block.attention.has_gate) return {};
  const auto halves = q.view({q.size(0), -1, 2, block.shape.head_dim}).unbind(2);
  q = halves[0].reshape({q.size(0), -1});
  return halves[1].reshape(q.sizes());
}

// Normalizes queries and keys if the family does, and applies rotary embeddings.
ops::QueriesKeysValues queries_keys_values(const Block& block, const Tensor& x_th, const ForwardContext& pass,
                                           const ops::RopeTable& rope, Tensor& gate) {
  const auto& a = block.attention;
  const bool turns_there =
      !a.q_norm && !a.k_norm && ops::rotates_in_place(x_th, rope);  // nothing between the projection and the rotation
  auto parts = pass.cache ? TensorList() : a.qkv.trained({&a.q, &a.k, &a.v}, x_th, pass.mode, turns_there ? &rope : nullptr);
  if (parts.empty())
    parts = {a.q(x_th, pass.mode), a.k(x_th, pass.mode), a.v(x_th, pass.mode)};
  else if (turns_there)
    return {parts[0], parts[1], parts[2]};
  gate = split_gate(block, parts[0]);
  if (a.q_norm && a.k_norm && a.q_norm->is_plain_rms() && a.k_norm->is_plain_rms())
    return ops::qk_norm_rope({parts[0], parts[1], parts[2]}, a.norms(), rope);
  auto turned = [&](const std::optional<Norm>& norm, const Tensor& x) {
    return ops::partial_rope(head_norm(norm, x, block.shape.head_dim), rope, block.shape.head_dim);
  };
  return {turned(a.q_norm, parts[0]), turned(a.k_norm, parts[1]), parts[2]};
}

Tensor wanted_rows(const Tensor& x_th, const ForwardContext& pass) {
  return pass.output_rows_r.defined() ? x_th.index_select(0, pass.output_rows_r) : x_th;
}

Tensor attend_unobserved(const Block& block, const Tensor& x_th, const ForwardContext& pass) {
  const auto& a = block.attention;
  const auto& rope = block.uses_local_rope ? pass.local_rope : pass.rope;
  if (pass.cache && a.can_fuse() && a.qkv.is_current_for({&a.q, &a.k, &a.v}))
    return a.o(wanted_rows(pass.cache->attend(block.layer, a.qkv(x_th), a.norms(), rope, block.shape), pass), pass.mode);
  Tensor gate;
  auto [q, k, v] = queries_keys_values(block, x_th, pass, rope, gate);
  const auto output = [&](const Tensor& y) {
    return a.o(wanted_rows(gate.defined() ? y * at::sigmoid(gate) : y, pass), pass.mode);
  };
  if (pass.shifted) return output(ops::shifted_attention(q, k, v, *pass.shifted, block.shape));
  if (pass.split) return output(pass.split->attend(q, k, v, pass.plan, block.shape));
  return output(pass.cache ? pass.cache->attend(block.layer, q, k, v, block.shape)
                           : ops::attention(q, k, v, pass.plan, block.shape));
}

Tensor attend_linearly(const Block& block, const Tensor& x_th, const ForwardContext& pass) {
  const auto& net = *block.delta_net;
  HONE_CHECK(!pass.split && !pass.region && !pass.shifted, "{} needs whole sequences", net.name);
  HONE_CHECK(!pass.cache || pass.states, "{} has no state to continue", net.name);
  const auto slots = pass.states ? pass.states->of(block.layer) : ops::StateSlots();
  const auto y_th = net.mix(x_th, pass.mode, *pass.linear_plan, pass.states ? &slots : nullptr);
  return net.out(wanted_rows(y_th, pass), pass.mode);
}

Tensor attend(const Block& block, const Tensor& x_th, const ForwardContext& pass) {
  const auto compute = block.delta_net ? attend_linearly : attend_unobserved;
  if (!pass.observer) return compute(block, x_th, pass);
  const ObservedModule module(pass.observer, block.delta_net ? block.delta_net->name : parent_of(block.attention.q.name), x_th);
  auto y_th = compute(block, x_th, pass);
  module.end(y_th);
  return y_th;
}

Tensor gated(const Mlp& mlp, const Tensor& gate, const Tensor& up) {
  return mlp.activation == Activation::silu ? ops::swiglu(gate, up) : at::gelu(gate, "tanh") * up;
}

Tensor gated_halves(const Mlp& mlp, const Tensor& both) {
  if (both.is_cpu() && mlp.activation == Activation::silu) return ops::swiglu_halves(both);
  const auto halves = both.chunk(2, 1);
  return gated(mlp, halves[0], halves[1]);
}

Tensor transform(const Mlp& mlp, const Tensor& x_th, const LinearContext& mode) {
  if (!at::GradMode::is_enabled() && mlp.gate_up.is_current_for({&mlp.gate, &mlp.up})) {
    return mlp.down(gated_halves(mlp, mlp.gate_up(x_th)), mode);
  }
  const bool fuses =
      at::GradMode::is_enabled() && mlp.activation == Activation::silu && mlp.down.tuners.empty() && !mlp.down.rounds_weight();
  ops::cuda::GateUpdates updates;  // low-rank updates of gate and up that the next operator adds
  auto parts = fuses ? mlp.gate_up.trained_gate_up(mlp.gate, mlp.up, x_th, mode, updates)
                     : mlp.gate_up.trained({&mlp.gate, &mlp.up}, x_th, mode);
  if (parts.empty()) parts = {mlp.gate(x_th, mode), mlp.up(x_th, mode)};
  const auto &gate = parts[0], &up = parts[1];
  if (!fuses) return mlp.down(gated(mlp, gate, up), mode);
  auto down = mode.unread ? ops::swiglu_linear_unread : ops::swiglu_linear;
  return down(gate, up, mlp.down.compute_weight(), mlp.down.bias, mlp.down.adapters, mode.training, updates,
              mlp.down.float8_weight);
}

// Experts of an earlier pass for this block's tokens, in order. Undefined: the router chooses.
Tensor replayed_experts(const Block& block, const ForwardContext& pass) {
  return pass.routed_experts_tlk.defined() ? pass.routed_experts_tlk.select(1, block.mixture->moe_layer) : Tensor();
}

Tensor mix(const Block& block, const Tensor& x_th, const ForwardContext& pass) {
  auto y_th = (*block.mixture)(x_th, pass.mode, pass.router_logits, /*drops=*/!pass.cache, replayed_experts(block, pass));
  return block.mlp ? y_th + at::sigmoid((*block.shared_gate)(x_th, pass.mode)) * transform(*block.mlp, x_th, pass.mode) : y_th;
}

// The inputs of one half of a block's layers, and the sum of their outputs.
Tensor entered(const Tensor& x_th, const ForwardContext& pass) {
  return pass.region ? pass.region->enter(x_th, pass.rope.cos.size(0)) : x_th;  // local rows: segments may have more
}

Tensor whole(const Tensor& result_th, const ForwardContext& pass) {
  return pass.region ? pass.region->leave(result_th) : result_th;
}

// This rank's rows with Megatron's sequence parallelism. Routers choose for padding.
Tensor padded_rows_of_rank(const Tensor& values_tk, const TensorParallelRegion& region) {
  const auto [begin, end] = region.own_rows(values_tk.size(0));
  const auto here_tk = values_tk.slice(0, begin, end);
  return at::constant_pad_nd(here_tk, {0, 0, 0, end - begin - here_tk.size(0)}, -1);
}

// Tokens are dispatched from the local rows to their experts. Load balancing uses all rows, and the shared MLP is sharded like
// that of a dense block.
Tensor mix_dispatched(const Block& block, const Tensor& x_th, const ForwardContext& pass) {
  TensorList logits;
  auto routed_tk = replayed_experts(block, pass);
  if (routed_tk.defined() && pass.region) routed_tk = padded_rows_of_rank(routed_tk, *pass.region);
  auto y_th =
      (*block.mixture)(x_th, pass.mode, pass.router_logits ? &logits : nullptr, /*drops=*/!pass.cache, routed_tk, pass.experts);
  for (const auto& logits_te : logits) pass.router_logits->push_back(entered(logits_te, pass));
  if (!block.mlp) return y_th;
  const auto read_th = entered(x_th, pass);
  auto shared_th = at::sigmoid((*block.shared_gate)(read_th, pass.mode)) * transform(*block.mlp, read_th, pass.mode);
  return y_th + whole(shared_th, pass);
}

// The residual that a half of a block adds, from its output.
Tensor addend(const Block& block, const std::optional<Norm>& post_norm, const Tensor& result_th) {
  auto normed_th = post_norm ? (*post_norm)(result_th) : result_th;
  return block.residual_scale == 1 ? normed_th : normed_th * block.residual_scale;
}

// x + residual, and its norm.
ops::NormedSum normed_sum(const Norm& norm, const Tensor& x_th, const Tensor& added_th) {
  if (norm.is_plain_rms()) return ops::add_rms_norm(x_th, added_th, norm.weight, norm.eps);
  if (norm.is_zero_centered_rms()) return ops::add_zero_centered_rms_norm(x_th, added_th, norm.weight, norm.eps);
  auto sum_th = x_th + added_th;
  return {sum_th, norm(sum_th)};
}

// The residual that each half of a block adds to x, from x after its norm.
Tensor attention_addend(const Block& block, const Tensor& normed_th, const ForwardContext& pass) {
  return addend(block, block.post_attention_norm, whole(attend(block, entered(normed_th, pass), pass), pass));
}

Tensor mlp_addend_unobserved(const Block& block, const Tensor& x_th, const Tensor& normed_th, const ForwardContext& pass) {
  if (block.mixture && pass.experts) return mix_dispatched(block, normed_th, pass);
  const auto read_th = entered(normed_th, pass);
  if (block.mixture) return whole(mix(block, read_th, pass), pass);
  auto mode = pass.mode;
  if (!block.post_mlp_norm && block.residual_scale == 1) mode.added_to = &x_th;
  // It ends the recomputed part: the addition needs no saved values.
  mode.unread = runs_again() && !block.post_mlp_norm && !pass.region;
  return addend(block, block.post_mlp_norm, whole(transform(*block.mlp, read_th, mode), pass));
}

Tensor mlp_addend(const Block& block, const Tensor& x_th, const Tensor& normed_th, const ForwardContext& pass) {
  if (!pass.observer) return mlp_addend_unobserved(block, x_th, normed_th, pass);
  const ObservedModule module(pass.observer, parent_of(block.mixture ? block.mixture->router.name : block.mlp->gate.name),
                              normed_th);
  auto y_th = mlp_addend_unobserved(block, x_th, normed_th, pass);
  module.end(y_th);
  return y_th;
}

Tensor attention_half(const Block& block, const Tensor& x_th, const ForwardContext& pass) {
  return wanted_rows(x_th, pass) + attention_addend(block, block.input_norm(x_th), pass);
}

Tensor mlp_half(const Block& block, const Tensor& x_th, const ForwardContext& pass) {
  return x_th + mlp_addend(block, x_th, block.pre_mlp_norm(x_th), pass);
}

// The outputs of a recomputed part: hidden states, and router logits if requested.
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

Module Block::module() {
  Module group{.path = name};
  group.children.push_back(delta_net ? delta_net->module() : attention_module(attention));
  group.children.push_back(mixture ? sparse_module(*this) : mlp_module(*mlp));
  group.children.push_back(module_of(input_norm));
  if (post_attention_norm) group.children.push_back(module_of(*post_attention_norm));
  group.children.push_back(module_of(pre_mlp_norm));
  if (post_mlp_norm) group.children.push_back(module_of(*post_mlp_norm));
  return group;
}

bool Block::draws() const {
  const auto tree = const_cast<Block&>(*this).module();  // as in trained()
  auto drops = [](const AdapterSlot& slot) {
    return std::ranges::any_of(*slot.adapters, [](const auto& adapter) { return adapter.dropout > 0; });
  };
  return (mixture && mixture->jitter > 0) || std::ranges::any_of(tree.slots(), drops) ||
         std::ranges::any_of(tree.linears(), [](const Linear* layer) { return !layer->tuners.empty(); });
}

TensorList Block::trained() const {
  // The tree points to members so that tuners may replace them; here they are only read.
  const Unit unit{UnitKind::block, const_cast<Block&>(*this).module()};
  TensorList list;
  for (const auto& parameter : unit.parameters())
    if (parameter.value->defined() && parameter.value->requires_grad()) list.push_back(*parameter.value);
  return list;
}

Tensor block_forward(const Block& block, const Tensor& x_th, const ForwardContext& pass) {
  auto [sum_th, normed_th] =
      normed_sum(block.pre_mlp_norm, wanted_rows(x_th, pass), attention_addend(block, block.input_norm(x_th), pass));
  return sum_th + mlp_addend(block, sum_th, normed_th, pass);
}

ops::NormedSum block_forward(const Block& block, const ops::NormedSum& x, const Norm& next, const ForwardContext& pass) {
  auto [sum_th, normed_th] = normed_sum(block.pre_mlp_norm, wanted_rows(x.sum, pass), attention_addend(block, x.normed, pass));
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
