#include "hone/train/plan/layouts.h"

#include <algorithm>
#include <array>

#include "hone/base/error.h"

namespace hone::train {
namespace {

constexpr int kSizes[] = {1, 2, 4, 8, 16, 32, 64, 128};
constexpr int kMostPerLayer = 8;      // tensor parallel ranks: their reductions are not overlapped
constexpr int64_t kLongRow = 8192;    // minimum sequence length worth splitting
constexpr double kBytesOfScores = 4;  // the ring computes and sends float32, with keys and values repeated for every head
constexpr double kGiga = 1e9;

double number(int64_t value) { return static_cast<double>(value); }

// Parameters of a model by how layouts place them.
struct Counts {
  double ends = 0;            // of the embedding, and of the head
  double block_layers = 0;    // of a block, without experts …
  double block_experts = 0;   // … and those of its experts, on average over the blocks
  double active_experts = 0;  // of them, those of a token
};

Counts count_parts(const Workload& w) {
  const auto& model = w.model;
  const auto& experts = model.experts;
  const double layers = number(model.layers), embedding = number(model.vocab_size * model.hidden_size);
  const double sparse = number(std::ranges::count(experts.in_layer, true)) / layers;
  Counts counts;
  counts.ends = embedding;
  const double blocks = number(w.parameters) - embedding * (model.tie_word_embeddings ? 1 : 2);
  const double of_one = 3.0 * number(model.hidden_size * experts.width);
  counts.block_experts = experts.count > 0 ? sparse * number(experts.count) * of_one : 0;
  counts.active_experts = experts.count > 0 ? sparse * number(experts.num_experts_per_tok) * of_one : 0;
  counts.block_layers = blocks / layers - counts.block_experts;
  return counts;
}

int64_t most_blocks(const Workload& w, int stages) { return (w.model.layers + stages - 1) / stages; }

// One device's part of the run, treated as training a model of that size.
Workload share_of(const Workload& w, const ModelLayout& layout, int64_t micro_batches, bool last) {
  const auto counts = count_parts(w);
  const int64_t blocks = most_blocks(w, layout.pp);
  const int expert_parts = layout.ep > 1 ? layout.ep : layout.tp, ends = layout.pp == 1 && !w.model.tie_word_embeddings ? 2 : 1;
  const double block = counts.block_layers / layout.tp + counts.block_experts / expert_parts;
  const double here = number(blocks) * block + ends * counts.ends / layout.tp, share = here / number(w.parameters);
  auto part = w;
  part.parameters = static_cast<int64_t>(here);
  part.largest_block = static_cast<int64_t>(number(w.largest_block) * block / (counts.block_layers + counts.block_experts));
  part.linear_parameters =
      static_cast<int64_t>(number(w.linear_parameters) * number(blocks) / number(w.model.layers) / layout.tp);
  part.trained_base = static_cast<int64_t>(number(w.trained_base) * share);
  // One of the two LoRA factors is sharded, the other is replicated.
  part.adapter_parameters =
      static_cast<int64_t>(number(w.adapter_parameters) * number(blocks) / number(w.model.layers) * (1 + 1.0 / layout.tp) / 2);
  part.model.layers = blocks;
  part.model.vocab_size = last ? w.model.vocab_size / layout.tp : 1;
  part.head_trains = w.head_trains && last;
  part.tokens = std::max<int64_t>(w.tokens / (layout.cp * layout.tp), 1);  // rows outside sharded layers, columns inside
  part.accumulation = micro_batches;
  part.passes_kept = last ? 1 : std::min<int64_t>(micro_batches, layout.pp);
  part.model.experts.in_layer.resize(static_cast<size_t>(blocks));
  return part;
}

// Bytes sent by a device, split into intra-node and inter-node.
struct Traffic {
  const Cluster& cluster;
  double node_link;  // GB/s
  double node = 0, network = 0;

  // `span` consecutive ranks contain all participants.
  double add(double bytes, int span) {
    const bool inside = span <= cluster.per_node;
    (inside ? node : network) += bytes;
    return bytes / ((inside ? node_link : cluster.network_gb_per_s) * kGiga);
  }
};

}  // namespace

std::string layout_problem(const Workload& w, const ModelLayout& layout, int64_t global_micro_batches) {
  const auto& model = w.model;
  const auto& a = model.attention;
  const auto divides = [&](int64_t size) { return size % layout.tp == 0; };
  if (!divides(a.heads) || (!divides(a.kv_heads) && layout.tp % a.kv_heads != 0)) return fmt::format("{} heads", a.heads);
  if (model.linear_attention && (layout.tp > 1 || layout.cp > 1)) return "linear attention";
  if (model.experts.count == 0 && layout.ep > 1) return "no experts";
  if (model.experts.count == 0 && !divides(model.intermediate_size)) return fmt::format("{} columns", model.intermediate_size);
  if (model.experts.count > 0 && layout.ep == 1 && !divides(model.experts.width))
    return fmt::format("{} columns", model.experts.width);
  if (model.experts.count > 0 && model.experts.count % layout.ep != 0) return fmt::format("{} experts", model.experts.count);
  if ((layout.dp * layout.cp * layout.tp) % layout.ep != 0) return "ranks of a stage";
  if (model.layers - most_blocks(w, layout.pp) * (layout.pp - 1) < 1) return fmt::format("{} blocks", model.layers);
  if (global_micro_batches % layout.dp != 0) return fmt::format("{} micro-batches a step", global_micro_batches);
  return "";
}

LayoutPlan plan_layout(const Workload& w, const ModelLayout& layout, const Cluster& cluster, const PlannedDevice& device,
                       int64_t global_micro_batches, double tokens_per_second) {
  const double t = layout.tp, p = layout.pp, c = layout.cp, e = layout.ep;
  LayoutPlan plan{.layout = layout, .micro_batches = global_micro_batches / layout.dp, .memory = {}};
  const PlanTarget target{.device_bytes = device.memory_gib * 1024 * 1024 * 1024, .usable_bytes = device.usable_bytes()};
  for (bool last : {false, true}) {
    if (!last && layout.pp == 1) continue;
    auto memory = plan_memory(share_of(w, layout, plan.micro_batches, last), Sharding::none, 1, target);
    if (memory.total() > plan.memory.total()) plan.memory = memory;
  }
  plan.fits = plan.memory.total() <= device.usable_bytes();

  // One micro-batch through the slowest stage.
  const auto counts = count_parts(w);
  const double blocks = number(most_blocks(w, layout.pp)), hidden = number(w.model.hidden_size);
  const double active_block = counts.block_layers + counts.active_experts;
  const double share = (blocks * active_block + counts.ends) / (number(w.model.layers) * active_block + counts.ends);
  const double whole = tokens_per_second > 0 ? number(w.tokens) / tokens_per_second
                                             : number(w.tokens) * flops_per_token(w) / (device.tflops * 1e12 * kReachedPeak);
  const double rows = number(w.tokens) / c, bytes = w.weight_bytes, passes = w.recompute ? 2 : 1;
  Traffic traffic{cluster, device.link_gb_per_s};
  double seconds = whole * (layout.pp == 1 ? 1 : share) / (t * c);
  const int of_copy = layout.tp * layout.cp;
  if (layout.tp > 1)  // two all-gathers and two reductions forward, as many backward; gathered again for weight gradients
    seconds +=
        traffic.add(blocks * (4 * passes + 4 + (w.trained_base > 0 ? 2 : 0)) * (t - 1) / t * rows * hidden * bytes, layout.tp);
  if (layout.cp > 1) {
    const double width = number(w.model.attention.heads * w.model.attention.head_dim) / t;
    seconds += traffic.add(blocks * (2 * passes * (c - 1) + 4 * c) * rows * width * kBytesOfScores, of_copy);
  }
  if (layout.ep > 1) {
    const double sent = rows / t * number(w.model.experts.num_experts_per_tok) * hidden * bytes;
    seconds += traffic.add(blocks * (2 * passes + 2) * (e - 1) / e * sent, std::max(layout.ep, layout.tp));
  }
  const int of_stage = of_copy * layout.dp;
  if (layout.pp > 1) seconds += traffic.add(2 * rows / t * hidden * bytes, of_stage * layout.pp);
  traffic.node *= number(plan.micro_batches), traffic.network *= number(plan.micro_batches);
  const double passages = number(plan.micro_batches) + p - 1;
  plan.bubble = (p - 1) / passages;

  // Gradients of the replicas are reduced during the last backward pass.
  const double copies = layout.dp * c, last_backward = seconds * (w.recompute ? 0.75 : 0.67);
  double sums = 0;
  if (copies > 1) sums = traffic.add(2 * plan.memory.gradients * (copies - 1) / copies, of_stage);
  plan.seconds = passages * seconds + std::max(0.0, sums - last_backward);
  plan.node_bytes = traffic.node, plan.network_bytes = traffic.network;
  plan.tokens_per_second = number(w.tokens * global_micro_batches) / plan.seconds;
  return plan;
}

std::vector<LayoutPlan> plan_layouts(const Workload& w, const Cluster& cluster, const PlannedDevice& device,
                                     int64_t global_micro_batches, double tokens_per_second) {
  std::vector<LayoutPlan> plans;
  for (int tp : kSizes)
    for (int pp : kSizes)
      for (int cp : kSizes)
        for (int ep : kSizes) {
          if (tp > std::min(kMostPerLayer, cluster.per_node) || (cp > 1 && w.row_length < kLongRow) || cp > kMostPerLayer)
            continue;
          if (cluster.devices % (tp * pp * cp) != 0) continue;
          const ModelLayout layout{tp, pp, cp, ep, cluster.devices / (tp * pp * cp)};
          if (!layout_problem(w, layout, global_micro_batches).empty()) continue;
          plans.push_back(plan_layout(w, layout, cluster, device, global_micro_batches, tokens_per_second));
        }
  std::ranges::stable_sort(plans, [](const LayoutPlan& a, const LayoutPlan& b) {
    return std::pair(!a.fits, a.fits ? a.seconds : a.memory.total()) < std::pair(!b.fits, b.fits ? b.seconds : b.memory.total());
  });
  return plans;
}

}  // namespace hone::train
