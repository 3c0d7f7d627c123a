// Translates DeepSpeed's configuration.
#include <algorithm>
#include <map>

#include "hone/base/error.h"
#include "hone/parallel/sharding/sharding_config.h"

namespace hone::parallel {
namespace {

constexpr const char* kOwnSizes = "hone sends block by block";
constexpr const char* kOwnScale = "hone scales float16 losses by its own rule, which is DeepSpeed's dynamic one";

// Known keys that have no effect here, and why.
const std::map<std::string, const char*>& settled_keys_of_deepspeed() {
  static const std::map<std::string, const char*> keys = {
      {"zero_allow_untested_optimizer", "every optimizer of hone is tested with sharding or refused"},
      {"zero_force_ds_cpu_optimizer", "hone has one implementation of each optimizer"},
      {"steps_per_print", "logging_steps says when"},
      {"wall_clock_breakdown", "progress lines show rates"},
      {"comms_logger", "the run's summary shows what was sent"},
      {"tensorboard", "report_to says where"},
      {"wandb", "report_to says where"},
      {"csv_monitor", "logging.jsonl holds every value"},
      {"monitor_config", "report_to says where"},
      {"flops_profiler", "progress lines show rates"},
      {"prescale_gradients", "the loss is divided before the backward pass"},
      {"gradient_predivide_factor", "the loss is divided before the backward pass"},
      {"zero_optimization.allgather_partitions", kOwnSizes},
      {"zero_optimization.allgather_bucket_size", kOwnSizes},
      {"zero_optimization.reduce_scatter", "gradients are always reduced and scattered at once"},
      {"zero_optimization.contiguous_gradients", "gradients of a block are always contiguous"},
      {"zero_optimization.round_robin_gradients", "every rank keeps an equal part of every block"},
      {"zero_optimization.sub_group_size", kOwnSizes},
      {"zero_optimization.stage3_prefetch_bucket_size", kOwnSizes},
      {"zero_optimization.stage3_param_persistence_threshold", "small parameters are gathered with their decoder block"},
      {"zero_optimization.stage3_max_live_parameters", "two blocks are in memory at a time"},
      {"zero_optimization.stage3_max_reuse_distance", "a block is kept when it is used again at once"},
      {"zero_optimization.stage3_gather_16bit_weights_on_model_save", "checkpoints are always consolidated"},
      {"zero_optimization.stage3_gather_fp16_weights_on_model_save", "checkpoints are always consolidated"},
      {"zero_optimization.load_from_fp32_weights", "checkpoints carry float32 weights where the run has them"},
      {"zero_optimization.ignore_unused_parameters", "unused parameters are always allowed"},
      {"zero_optimization.elastic_checkpoint", "every checkpoint can be continued on another number of processes"},
      {"zero_optimization.offload_optimizer.pin_memory", "host memory of accelerators is always pinned"},
      {"zero_optimization.offload_param.pin_memory", "host memory of accelerators is always pinned"},
      {"zero_optimization.offload_optimizer.buffer_count", kOwnSizes},
      {"zero_optimization.offload_param.buffer_count", kOwnSizes},
      {"zero_optimization.offload_param.buffer_size", kOwnSizes},
      {"zero_optimization.offload_param.max_in_cpu", kOwnSizes},
      {"activation_checkpointing.partition_activations", "sequence_parallel_size shares sequences out"},
      {"activation_checkpointing.contiguous_memory_optimization", "inputs of blocks are always contiguous"},
      {"activation_checkpointing.number_checkpoints", "every block is one"},
      {"activation_checkpointing.synchronize_checkpoint_boundary", "copies are ordered by the device's streams"},
      {"activation_checkpointing.profile", "progress lines show rates"},
      {"fp16.auto_cast", "weights are computed with in their own type"},
      {"fp16.loss_scale", kOwnScale},
      {"fp16.loss_scale_window", kOwnScale},
      {"fp16.initial_scale_power", kOwnScale},
      {"fp16.hysteresis", kOwnScale},
      {"fp16.min_loss_scale", kOwnScale},
  };
  return keys;
}

[[noreturn]] void wrong(const std::string& key, const Json& found, const std::string& expected) {
  throw UserError(ExitCode::usage, fmt::format("deepspeed: {} is {}; expected {}", key, found.dump(), expected));
}

bool is_auto(const Json& value) { return value == "auto" || value.is_null(); }

class Reader {
 public:
  explicit Reader(ShardingRequest& made) : made_(made) {}

  void read(const Json& object, const std::string& prefix) {
    if (!object.is_object()) wrong(prefix.empty() ? "the configuration" : prefix, object, "an object");
    for (const auto& [key, value] : object.items()) {
      std::string path = prefix.empty() ? key : prefix + "." + key;
      if (!understood(path, value)) made_.unknown.push_back(path);
    }
  }

 private:
  bool understood(const std::string& path, const Json& value) {
    auto& sharding = made_.sharding;
    if (path == "zero_optimization" || path == "fp16" || path == "bf16" || path == "activation_checkpointing") {
      read(value, path);
    } else if (path == "activation_checkpointing.cpu_checkpointing") {
      if (!value.is_boolean()) wrong(path, value, "true or false");
      made_.offload_activations = made_.recompute = value.get<bool>();
    } else if (path == "zero_optimization.stage") {
      if (!value.is_number_integer() || value < 0 || value > 3) wrong(path, value, "0, 1, 2 or 3");
      sharding.stage = value.get<int>();
    } else if (path == "zero_optimization.overlap_comm") {
      return true;  // false, as in the examples, only works around a bug of its own implementation
    } else if (path == "zero_optimization.reduce_bucket_size") {
      if (value.is_number())
        sharding.bucket_bytes = std::max<int64_t>(static_cast<int64_t>(value.get<double>()) * 2, 1 << 20);
      else if (!is_auto(value))
        wrong(path, value, "a number or \"auto\"");
    } else if (path == "zero_optimization.offload_optimizer" || path == "zero_optimization.offload_param") {
      offload(path, value);
    } else if (path == "zero_optimization.mics_shard_size" || path == "zero_optimization.zero_hpz_partition_size") {
      if (!value.is_number_integer()) wrong(path, value, "a number of processes");
      sharding.shard_size = value.get<int>() > 1 ? value.get<int>() : 0;
    } else if (path == "zero_optimization.zero_quantized_weights" || path == "zero_optimization.zero_quantized_gradients") {
      if (value == true) wrong(path, value, "false: weights and gradients are communicated in their own dtype");
    } else if (path == "communication_data_type") {
      sharding.reduce_type = value == "bf16" || value == "bfp16" ? at::kBFloat16 : value == "fp16" ? at::kHalf : at::kFloat;
    } else if (path == "tensor_parallel") {
      if (value.is_object() && value.value("autotp_size", Json(1)) > 1)
        wrong(path, value, "autotp_size 1: tensor parallelism is not in this version");
    } else if (path == "optimizer" || path == "scheduler") {
      made_.notes.push_back(fmt::format("deepspeed: {} is taken from the run's own options", path));
    } else {
      return states(path, value);
    }
    return true;
  }

  void offload(const std::string& path, const Json& value) {
    if (value.is_null()) return;
    if (!value.is_object()) wrong(path, value, "a mapping with a device");
    const auto device = value.value("device", Json("cpu"));
    if (device != "cpu" && device != "none") wrong(path + ".device", device, "cpu or none: NVMe is not in this version");
    for (const auto& [key, inner] : value.items())
      if (key != "device") states(path + "." + key, inner) ? void() : made_.unknown.push_back(path + "." + key);
    if (device == "none") return;
    (path.ends_with("param") ? made_.sharding.offload_parameters : made_.sharding.offload_optimizer) = true;
  }

  // Settings of the run that the file repeats, and fixed ones.
  bool states(const std::string& path, const Json& value) {
    static const std::map<std::string, const char*> options = {{"gradient_accumulation_steps", "gradient_accumulation_steps"},
                                                               {"train_micro_batch_size_per_gpu", "per_device_train_batch_size"},
                                                               {"gradient_clipping", "max_grad_norm"},
                                                               {"train_batch_size", "train_batch_size"},
                                                               {"fp16.enabled", "fp16"},
                                                               {"bf16.enabled", "bf16"}};
    if (auto option = options.find(path); option != options.end()) {
      if (!is_auto(value)) made_.option_values[option->second] = value;
      return true;
    }
    return settled_keys_of_deepspeed().contains(path) ||
           std::any_of(settled_keys_of_deepspeed().begin(), settled_keys_of_deepspeed().end(),
                       [&](const auto& entry) { return path.starts_with(entry.first + "."); });
  }

  ShardingRequest& made_;
};

}  // namespace

ShardingRequest read_deepspeed(const Json& config) {
  ShardingRequest made;
  Reader(made).read(config, "");
  if (made.sharding.offload_parameters && made.sharding.stage < 3)
    throw UserError(ExitCode::usage, fmt::format("deepspeed: offload_param with stage {}", made.sharding.stage),
                    "parameters are sharded, and can be offloaded, in stage 3");
  return made;
}

Json deepspeed_preset(const std::string& name) {
  if (!name.starts_with("zero") || name.size() < 5) return nullptr;
  auto words = name.substr(4);
  bool offload = words.ends_with("_offload");
  if (offload) words.resize(words.size() - 8);
  if (words.size() != 1 || words[0] < '0' || words[0] > '3' || (offload && words[0] < '2')) return nullptr;
  int stage = words[0] - '0';
  Json zero{{"stage", stage}};
  if (offload) zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
  if (offload && stage == 3) zero["offload_param"] = {{"device", "cpu"}, {"pin_memory", true}};
  return {{"zero_optimization", zero}};
}

}  // namespace hone::parallel
