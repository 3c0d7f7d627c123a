// Model parallel layouts of a run on many devices: tensor, pipeline, context and expert parallel sizes, with the memory of the
// fullest device, the bytes on each kind of link and the step time. It models this program: replicas keep their own optimizer,
// and communication between tensor parallel ranks is not overlapped.
#pragma once
#include <vector>

#include "hone/train/plan/step_time.h"

namespace hone::train {

struct ModelLayout {
  int tp = 1, pp = 1, cp = 1, ep = 1, dp = 1;

  bool is_data_parallel() const { return tp == 1 && pp == 1 && cp == 1 && ep == 1; }
  bool operator==(const ModelLayout&) const = default;
};

struct Cluster {
  int devices = 1, per_node = 8;
  double network_gb_per_s = 25;  // of each device to other nodes
};

struct LayoutPlan {
  ModelLayout layout;
  int64_t micro_batches = 1;                 // of a step in each copy
  MemoryPlan memory;                         // of the fullest device
  double node_bytes = 0, network_bytes = 0;  // that a device sends in a step, inside its node and out of it
  double bubble = 0;                         // the share of a step that a stage waits for others
  double seconds = 0;                        // of a step
  double tokens_per_second = 0;              // of all devices
  bool fits = false;
};

// Why a model does not support a layout; "" if it does.
std::string layout_problem(const Workload& workload, const ModelLayout& layout, int64_t global_micro_batches);

// One layout; `global_micro_batches` form a step over all replicas. `tokens_per_second` as in predict_step.
LayoutPlan plan_layout(const Workload& workload, const ModelLayout& layout, const Cluster& cluster, const PlannedDevice& device,
                       int64_t global_micro_batches, double tokens_per_second);

// All layouts that the model supports, those that fit first, fastest first.
std::vector<LayoutPlan> plan_layouts(const Workload& workload, const Cluster& cluster, const PlannedDevice& device,
                                     int64_t global_micro_batches, double tokens_per_second);

}  // namespace hone::train
