// Training memory on one device, by purpose.
#pragma once
#include <array>
#include <string>
#include <string_view>

#include "hone/train/plan/workload.h"

namespace hone::train {

enum class Sharding { none, zero1, zero2, zero3, fsdp, zero2_offload, zero3_offload };
inline constexpr std::array kShardings = {Sharding::none, Sharding::zero1,         Sharding::zero2,        Sharding::zero3,
                                          Sharding::fsdp, Sharding::zero2_offload, Sharding::zero3_offload};
std::string_view sharding_name(Sharding sharding);
bool shards_weights(Sharding sharding);
bool offloads_optimizer(Sharding sharding);

// Where it runs. For the CPU the memory of the process, as hone reports it; for an accelerator that of its allocator.
struct PlanTarget {
  bool cpu = false;
  double runtime_bytes = 0;  // of the program itself, on the CPU
  double device_bytes = 0;   // of a device, which bounds a cache; 0: not known …
  double usable_bytes = 0;   // … without the driver's and the runtime's part
};

struct MemoryPlan {
  double weights = 0, reference = 0, gradients = 0, optimizer = 0, activations = 0, logits = 0;
  double fragmentation = 0;  // blocks that are held and cannot be used
  double runtime = 0;
  double cache = 0;     // the KV cache of the engine that writes completions …
  double kv_cache = 0;  // … its part of the peak: all, or the excess over training's need if the engine sleeps meanwhile
  double host = 0;      // what offloading keeps in main memory instead, for each device

  double total() const {
    return weights + reference + gradients + optimizer + activations + logits + fragmentation + runtime + kv_cache;
  }
};

MemoryPlan plan_memory(const Workload& workload, Sharding sharding, int devices, const PlanTarget& target);

// Tokens of the largest image: of one tile or square if the model uses those, else as many as `asked`.
int64_t image_tokens(const model::VisionConfig& vision, int64_t asked);

}  // namespace hone::train
