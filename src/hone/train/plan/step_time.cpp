#include "hone/train/plan/step_time.h"

#include <algorithm>

#include "hone/model/memory/delta_net_memory.h"

namespace hone::train {
namespace {

// Weights used per token: for experts, only the selected ones.
double active_parameters(const Workload& w) {
  const auto& experts = w.model.experts;
  auto all = static_cast<double>(w.parameters);
  if (experts.count == 0) return all;
  const auto sparse = static_cast<double>(std::ranges::count(experts.in_layer, true));
  const double of_one = 3.0 * static_cast<double>(w.model.hidden_size * experts.width);
  return all - sparse * static_cast<double>(experts.count - experts.num_experts_per_tok) * of_one;
}

}  // namespace

// Two operations per weight forward, two for the gradient of the input, two more for trained weights; recomputation repeats the
// forward pass.
double flops_per_token(const Workload& w) {
  const double active = active_parameters(w),
               trained_share = static_cast<double>(w.trained()) / static_cast<double>(std::max<int64_t>(w.parameters, 1));
  const auto full = static_cast<double>(w.model.attention_layers());
  const double linear = w.model.linear_attention ? 2 * model::delta_rule_products(*w.model.linear_attention) : 0;
  const double attention = 4.0 * full * static_cast<double>(w.model.attention.heads * w.model.attention.head_dim) *
                               static_cast<double>(w.row_length) / 2 +
                           (static_cast<double>(w.model.layers) - full) * linear;
  const double forward = 2 * active + attention;
  return forward * (w.recompute ? 2 : 1) + forward + 2 * active * std::min(1.0, trained_share) + attention;
}

StepTime predict_step(const Workload& w, Sharding sharding, int devices, const PlannedDevice& device, double tokens_per_second) {
  constexpr double kGiga = 1e9;
  const auto tokens = static_cast<double>(w.tokens), micro_batches = static_cast<double>(std::max<int64_t>(w.accumulation, 1));
  StepTime time;
  time.compute = micro_batches * (tokens_per_second > 0 ? tokens / tokens_per_second
                                                        : tokens * flops_per_token(w) / (device.tflops * 1e12 * kReachedPeak));
  const double trained =
      static_cast<double>(w.trained_base) * w.weight_bytes + static_cast<double>(w.adapter_parameters) * w.adapter_bytes;
  if (devices > 1) {
    const double remote = static_cast<double>(devices - 1) / devices,
                 weights = static_cast<double>(w.parameters) * w.weight_bytes;
    double bytes = 2 * trained * remote;
    if (shards_weights(sharding))
      bytes += (w.recompute ? 3 : 2) * weights * remote * micro_batches;  // gathered for each pass over the blocks
    const double seconds = bytes / (device.link_gb_per_s * kGiga);
    time.communication = std::max(0.0, seconds - time.compute);
  }
  if (offloads_optimizer(sharding)) {
    // Gradients are copied to the host and weights back; the optimizer reads and writes its state in host memory.
    const double numbers = static_cast<double>(w.trained()) / devices;
    time.offload = (2 * trained / devices + numbers * 4 * 2 * (1 + w.moments)) / (kHostGbPerS * kGiga);
    if (sharding == Sharding::zero3_offload)
      time.offload += 2 * micro_batches * static_cast<double>(w.parameters) * w.weight_bytes / devices / (kHostGbPerS * kGiga);
  }
  return time;
}

}  // namespace hone::train
