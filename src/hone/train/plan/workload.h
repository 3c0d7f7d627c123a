// The properties of a training run that determine its memory, counted from names and shapes alone.
#pragma once
#include <optional>

#include "hone/model/config.h"
#include "hone/optim/factory.h"
#include "hone/tuner/config.h"

namespace hone::train {

struct Workload {
  model::DecoderConfig model;
  int64_t parameters = 0;          // base weights
  int64_t largest_block = 0;       // parameters of one decoder block
  int64_t linear_parameters = 0;   // of the linear layers of all blocks
  int64_t trained_base = 0;        // base weights that train
  int64_t adapter_parameters = 0;  // LoRA's
  bool head_trains = false;
  double weight_bytes = 4;           // a base weight
  double linear_bytes = 0;           // one of the blocks' linear layers, where those are compressed; 0: as the others
  double adapter_bytes = 4;          // a weight of the adapter
  bool masters = false;              // half-precision weights that train get float32 copies
  bool reference = false;            // a second model, frozen, that the trained one is compared with
  int64_t reference_parameters = 0;  // of that model, where it is a teacher of another size; 0: as many
  bool value_model = false;          // a second model that trains as the first one does: PPO's critic
  double moments = 2;                // numbers the optimizer keeps for a trained one
  double moment_bytes = 0;           // 0: as the number it belongs to

  // LoRA inside a block: the widths of its inputs, for dropout masks, and its ranks.
  int64_t adapted_inputs = 0, adapted_ranks = 0;
  bool adapter_dropout = false;

  // GRPO's engine: maximum KV cache, its share of the device's memory including weights, and whether it is released while the
  // model trains.
  double cache_bytes = 0, gpu_memory_utilization = 0.9;
  bool engine_sleeps = false;

  int64_t tokens = 0;                                  // of a micro-batch on one device
  int64_t row_length = 0;                              // of one sequence in it
  int64_t images = 0, image_tokens = 0;                // of a micro-batch, and of the largest of them
  bool tower_trains = false, tower_recompute = false;  // part of the vision tower; activation checkpointing in it
  int64_t accumulation = 1;
  int64_t passes_kept = 1;  // micro-batches whose activations wait for their backward pass: several in a pipeline
  bool recompute = true;    // activation checkpointing
  std::optional<double> activation_memory_budget;  // how much of it; unset: all of it, or none

  int64_t trained() const { return trained_base + adapter_parameters; }
};

// Counts parameters by the tuner's own rules. Throws UserError if the tuner's options select nothing.
void count_parameters(Workload& workload, const tuner::TunerConfig& tuner);
void count_optimizer(Workload& workload, const optim::OptimizerConfig& optimizer);

}  // namespace hone::train
