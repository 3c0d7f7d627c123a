#include "hone/train/plan/memory.h"

#include <algorithm>

#include "hone/model/memory/delta_net_memory.h"

namespace hone::train {
namespace {

constexpr double kLogitsChunk = 96.0 * (1 << 20);  // ops::CrossEntropyOptions::chunk_bytes

bool at_least(Sharding sharding, std::initializer_list<Sharding> list) { return std::ranges::count(list, sharding) > 0; }
bool shards_gradients(Sharding s) { return shards_weights(s) || at_least(s, {Sharding::zero2, Sharding::zero2_offload}); }
bool shards_optimizer(Sharding s) { return shards_gradients(s) || s == Sharding::zero1; }

// Saved elements per token between the products of a block's MLP, averaged over the blocks: gate and up; for experts, those of
// all selected ones and their outputs.
double kept_inside(const Workload& w) {
  const auto& experts = w.model.experts;
  const double dense = 2.0 * static_cast<double>(w.model.intermediate_size);
  if (experts.count == 0) return dense;
  const auto sparse_layers = static_cast<double>(std::ranges::count(experts.in_layer, true)),
             share = sparse_layers / static_cast<double>(w.model.layers);
  double mine = 2.0 * static_cast<double>(experts.num_experts_per_tok * experts.width + experts.shared_expert_intermediate_size) +
                static_cast<double>(experts.num_experts_per_tok * w.model.hidden_size);
  if (w.trained_base > 0)
    mine +=
        static_cast<double>(experts.num_experts_per_tok * (experts.width + w.model.hidden_size));  // inputs of their gradients
  return share * mine + (1 - share) * dense;
}

// Queries, keys, values and the attention output.
double kept_by_attention(const Workload& w) {
  const auto& a = w.model.attention;
  const auto q = static_cast<double>(a.heads * a.head_dim), kv = static_cast<double>(a.kv_heads * a.head_dim);
  return (2 * q + 2 * kv + (a.qk_norm ? q + kv : 0) + (a.output_gate ? 2 * q : 0)) * w.weight_bytes;
}

// Saved bytes per token in a block: norms' inputs and outputs, attention, gate and up; with adapters, dropout masks and low-rank
// products.
double kept_per_token(const Workload& w, double attention) {
  double width = 4.0 * static_cast<double>(w.model.hidden_size) + kept_inside(w);
  double adapters = (w.adapter_dropout ? static_cast<double>(w.adapted_inputs) : 0) + static_cast<double>(w.adapted_ranks);
  return width * w.weight_bytes + attention + adapters * w.adapter_bytes;
}

// What the backward pass of one block needs besides saved activations: the MLP's product and its gradients are the widest.
double working_per_token(const Workload& w) {
  return (4.0 * static_cast<double>(w.model.widest_inner()) + 2.0 * static_cast<double>(w.model.hidden_size)) * w.weight_bytes;
}

struct Activations {
  double kept;     // of all blocks, at the start of the backward pass
  double working;  // of the block being computed
};

Activations activations_of(const Workload& w) {
  auto tokens = static_cast<double>(w.tokens), layers = static_cast<double>(w.model.layers);
  const auto& net = w.model.linear_attention;
  const double attention = kept_by_attention(w),
               linear = net ? model::delta_net_activations(*net).bytes(w.weight_bytes) : attention,
               share = static_cast<double>(w.model.attention_layers()) / layers;
  const double widest = kept_per_token(w, std::max(attention, linear)) * tokens;
  double block = kept_per_token(w, share * attention + (1 - share) * linear) * tokens,
         input = static_cast<double>(w.model.hidden_size) * w.weight_bytes * tokens;
  double working = working_per_token(w) * tokens;
  const auto passes = static_cast<double>(w.passes_kept);
  if (w.activation_memory_budget && *w.activation_memory_budget < 1)
    return {passes * layers * (input + *w.activation_memory_budget * (block - input)), widest + working};
  if (w.recompute) return {passes * layers * input, widest + working};
  return {passes * layers * block, working};
}

double logits_of(const Workload& w) {
  double row = static_cast<double>(w.model.vocab_size) * 4, all = row * static_cast<double>(w.tokens);
  double chunk = std::min(std::max(kLogitsChunk, 16 * row), all);
  double head = w.head_trains ? static_cast<double>(w.model.vocab_size * w.model.hidden_size) * 4 : 0;
  // The final hidden states, their labeled rows and the gradients of both coexist with a chunk and its float32 copy.
  double hidden = 3 * static_cast<double>(w.model.hidden_size * w.tokens) * w.weight_bytes;
  return chunk * (w.weight_bytes < 4 ? 1.5 : 1) + hidden + head;
}

// Weights and optimizer exist before the cache, which takes the engine's share of the rest. With sleep mode it shares its memory
// with activations and gradients.
void add_cache(const Workload& w, const PlanTarget& target, MemoryPlan& plan) {
  if (w.cache_bytes <= 0) return;
  const double before = plan.weights + plan.reference + plan.optimizer;
  double cache = w.cache_bytes;
  if (target.device_bytes > 0)
    cache = std::clamp(std::min(target.device_bytes * w.gpu_memory_utilization, target.usable_bytes) - before, 0.0, cache);
  plan.cache = cache;
  const double training = plan.gradients + plan.activations + plan.logits + plan.fragmentation;
  plan.kv_cache = w.engine_sleeps ? std::max(0.0, cache - training) : cache;
}

double trained_bytes(const Workload& w, double per_base, double per_adapter) {
  return static_cast<double>(w.trained_base) * per_base + static_cast<double>(w.adapter_parameters) * per_adapter;
}

// A micro-batch's images in a vision tower. Its activations scale with patches, several of which form a token.
struct TowerMemory {
  double kept = 0;     // until the backward pass reaches it
  double working = 0;  // of the block that is being computed, and the pixels
};

TowerMemory tower_memory(const Workload& w) {
  if (!w.model.vision || w.image_tokens == 0) return {};
  const auto& tower = *w.model.vision;
  const double patches = static_cast<double>(w.image_tokens * w.images * tower.merge_unit()),
               hidden = static_cast<double>(tower.hidden_size), inner = static_cast<double>(tower.intermediate_size);
  const double gates = tower.activation == model::VisionActivation::swiglu ? 2 : 1;
  // Norms' inputs and outputs, queries, keys, values, the attention output; outputs of the MLP's products.
  const double block = (8 * hidden + (1 + gates) * inner) * w.weight_bytes * patches;
  // The probabilities of visual words, in float32 and in the model's dtype.
  const double words =
      tower.has_marks() ? static_cast<double>(w.image_tokens * w.images * tower.merger_size) * (4 + 2 * w.weight_bytes) : 0;
  // Pixels are float32 rows of one frame of a still image, or 16-bit rows that repeat it.
  const double pixels = static_cast<double>(tower.row_size() / tower.temporal_patch_size) * 4 * patches;
  TowerMemory memory;
  memory.working = block + words + pixels;
  if (!w.tower_trains) return memory;
  const double each = w.tower_recompute ? hidden * w.weight_bytes * patches : block;
  memory.kept = static_cast<double>(tower.depth) * each + words;
  return memory;
}

}  // namespace

bool shards_weights(Sharding s) { return at_least(s, {Sharding::zero3, Sharding::fsdp, Sharding::zero3_offload}); }
bool offloads_optimizer(Sharding s) { return at_least(s, {Sharding::zero2_offload, Sharding::zero3_offload}); }

std::string_view sharding_name(Sharding sharding) {
  switch (sharding) {
    case Sharding::none:
      return "none";
    case Sharding::zero1:
      return "zero1";
    case Sharding::zero2:
      return "zero2";
    case Sharding::zero3:
      return "zero3";
    case Sharding::fsdp:
      return "fsdp";
    case Sharding::zero2_offload:
      return "zero2_offload";
    case Sharding::zero3_offload:
      return "zero3_offload";
  }
  return "";
}

MemoryPlan plan_memory(const Workload& w, Sharding sharding, int devices, const PlanTarget& target) {
  MemoryPlan plan;
  double parts = devices;
  double base_type = w.masters ? 4 : w.weight_bytes;  // tensors that the optimizer updates
  double moment = w.moment_bytes > 0 ? std::min(w.moment_bytes, base_type) : base_type,
         adapter_moment = w.moment_bytes > 0 ? w.moment_bytes : w.adapter_bytes;

  plan.weights = static_cast<double>(w.parameters) * w.weight_bytes + static_cast<double>(w.adapter_parameters) * w.adapter_bytes;
  if (w.linear_bytes > 0) plan.weights -= static_cast<double>(w.linear_parameters) * (w.weight_bytes - w.linear_bytes);
  if (w.reference)
    plan.reference = static_cast<double>(w.reference_parameters > 0 ? w.reference_parameters : w.parameters) * w.weight_bytes;
  plan.gradients = trained_bytes(w, base_type, w.adapter_bytes);
  plan.optimizer = trained_bytes(w, w.moments * moment + (w.masters ? 4 : 0), w.moments * adapter_moment);
  if (w.value_model) plan.weights *= 2, plan.gradients *= 2, plan.optimizer *= 2;
  if (shards_optimizer(sharding)) plan.optimizer /= parts;
  if (shards_gradients(sharding)) plan.gradients /= parts;
  double gathered = 2 * static_cast<double>(w.largest_block) * w.weight_bytes;  // the current block and the one being prefetched
  if (shards_weights(sharding) && devices > 1) plan.weights = plan.weights / parts + gathered;
  if (w.reference && shards_weights(sharding) && devices > 1) plan.reference = plan.reference / parts + gathered;
  if (offloads_optimizer(sharding)) {
    plan.host = plan.optimizer;
    plan.optimizer = 0;
    if (sharding == Sharding::zero3_offload) plan.host += plan.weights, plan.weights = gathered;
  }

  // A block's gradients exist in full before they are reduced.
  auto activations = activations_of(w);
  if (w.value_model) activations.kept *= 2;  // those of both models are kept until the backward pass
  double restored = static_cast<double>(w.recompute ? w.largest_block : w.linear_parameters) * w.weight_bytes;
  if (w.linear_bytes > 0) (w.recompute ? activations.working : activations.kept) += restored;
  if (w.trained_base > 0) activations.working += static_cast<double>(w.largest_block) * w.weight_bytes;
  // The tower runs before the blocks, and after them in the backward pass.
  const auto tower = tower_memory(w);
  activations.kept += tower.kept;
  // Gradients grow while saved activations shrink, unless earlier micro-batches have already left theirs.
  double begin = activations.kept + activations.working + (w.accumulation > 1 ? plan.gradients : 0);
  double end = std::max(activations.working, tower.kept + tower.working) + plan.gradients;
  double at_head = activations.kept + logits_of(w) + (w.accumulation > 1 ? plan.gradients : 0);
  double peak = std::max({begin, end, at_head});
  plan.logits = std::min(logits_of(w), std::max(0.0, peak - activations.kept - plan.gradients));
  plan.activations = std::max(0.0, peak - plan.gradients - plan.logits);
  // Fragmentation: memory freed by activations does not all fit gradients.
  double misfit = w.accumulation > 1 ? 0 : std::min(activations.kept, plan.gradients) / 2;
  plan.fragmentation = misfit + 0.03 * peak;
  if (target.cpu) plan.runtime = target.runtime_bytes;
  add_cache(w, target, plan);
  return plan;
}

int64_t image_tokens(const model::VisionConfig& vision, int64_t asked) {
  if (!vision.has_fixed_grid) return asked;
  const int64_t side = vision.position_grid / vision.merge_size;
  return vision.bidirectional_images ? side * side : std::max<int64_t>(1, asked / (side * side)) * side * side;
}

}  // namespace hone::train
