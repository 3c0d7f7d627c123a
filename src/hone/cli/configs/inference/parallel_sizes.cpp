#include "hone/cli/configs/inference/parallel_sizes.h"

#include <cstdlib>

#include "hone/base/error.h"
#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/configs/inference/engine_args.h"
#include "hone/cli/configs/model_checks.h"
#include "hone/cli/configs/model_config.h"
#include "hone/cli/configs/rope_scaling.h"
#include "hone/cli/configs/training/accelerate_config.h"
#include "hone/device/device_list.h"
#include "hone/device/memory.h"
#include "hone/model/inference/tensor_parallel_decoder.h"
#include "hone/model/memory/device_map.h"

namespace hone::cli {
namespace {

constexpr double kForWeights = 0.9;  // share of a device's free memory for weights; activations use the rest

std::vector<at::Device> usable_devices_of(const Options& options) {
  const ModelArguments args(options);
  bool on_cpu = *args.use_cpu || launched_on_cpu(options);
  return device::select_devices(on_cpu ? "cpu" : *args.devices);
}

std::string names_of(const std::vector<at::Device>& devices) {
  std::string names;
  for (auto device : devices) names += (names.empty() ? "" : ", ") + device.str();
  return names;
}

std::vector<model::DeviceBudget> budgets_on(const Options& options, const std::vector<at::Device>& devices) {
  std::vector<model::DeviceBudget> rooms;
  for (auto device : devices) {
    at::empty({1}, at::TensorOptions().device(device));  // an allocator is counted only after its first allocation
    auto use = device::memory_use(device);
    auto free = static_cast<double>(use.total - use.current) * kForWeights;
    rooms.push_back({device, memory_limit(options, device).value_or(free)});
  }
  return rooms;
}

// {"model.embed_tokens": 0, "model.layers.0": "npu:1", "lm_head": "cpu"}: numbers are indices into the available devices.
model::DeviceMap named_devices(const ModelArguments& args, const Json& map, const std::vector<at::Device>& devices) {
  model::DeviceMap placement;
  for (const auto& [name, place] : map.items()) {
    auto text = place.is_number_integer() ? std::to_string(place.get<int64_t>())
                : place.is_string()       ? place.get<std::string>()
                                          : place.dump();
    auto found = std::ranges::find_if(devices, [&](at::Device device) {
      return text == device.str() || (!device.is_cpu() && text == std::to_string(device.index()));
    });
    bool on_cpu = text == "cpu";
    if (found == devices.end() && !on_cpu)
      throw UserError(
          ExitCode::usage,
          fmt::format("{} puts \"{}\" on {}; found: cpu, {}", args.device_map.flag(), name, place.dump(), names_of(devices)),
          "name devices of this machine, or auto");
    placement.insert_or_assign(name, on_cpu ? at::Device(at::kCPU) : *found);
  }
  return placement;
}

std::optional<model::DeviceMapStrategy> spread_named(const Json& map) {
  if (map == "auto" || map == "balanced") return model::DeviceMapStrategy::balanced;
  if (map == "balanced_low_0") return model::DeviceMapStrategy::low_first;
  if (map == "sequential") return model::DeviceMapStrategy::sequential;
  return std::nullopt;
}

void check_one_process(const ModelArguments& args) {
  const char* ranks = std::getenv("LOCAL_WORLD_SIZE");
  if (!ranks || std::atoi(ranks) < 2) return;
  throw UserError(
      ExitCode::usage,
      fmt::format("{} distributes a model over the devices of one process, and {} run here", args.device_map.flag(), ranks),
      "leave it out, and shard the model by --deepspeed zero3 if it is too large");
}

}  // namespace

model::DeviceMap placement_of(const Options& options, const std::filesystem::path& folder, at::Device first) {
  const ModelArguments args(options);
  if (!args.device_map.has_value()) return {};
  const auto& map = args.device_map.raw();
  const auto how = spread_named(map);
  if (!how && !(map.is_object() && map.size() > 1)) return {};  // one device for all modules
  check_one_process(args);
  const auto devices = usable_devices_of(options);
  if (map.is_object()) return named_devices(args, map, devices);
  if (devices.size() < 2) return {};
  auto placement = model::infer_device_map(folder, budgets_on(options, devices), *how);
  log::info("the model is distributed over {}", names_of(devices));
  HONE_CHECK(model::lookup_device(placement, "model.embed_tokens.weight", first) == devices[0]);
  return placement;
}

int64_t data_parallel_size(const Options& options) {
  return engine_integer(options, EngineArguments(options).vllm_data_parallel_size, "data_parallel_size");
}

ParallelSizes engine_layout(const Options& options) {
  const EngineArguments engine_args(options);
  const ModelArguments model_args(options);
  ParallelSizes layout;
  layout.dp_size = static_cast<size_t>(data_parallel_size(options));
  layout.pp_size = static_cast<size_t>(
      engine_integer(options, EngineArguments(options).vllm_pipeline_parallel_size, "pipeline_parallel_size"));
  const auto tp_size = engine_integer(options, EngineArguments(options).vllm_tensor_parallel_size, "tensor_parallel_size");
  if (tp_size == 0)
    throw UserError(ExitCode::usage, fmt::format("{} is 0", engine_args.vllm_tensor_parallel_size.flag()),
                    "expected 1 or more, or -1 for all devices");
  if (layout.dp_size * layout.pp_size == 1 && tp_size == 1) return layout;
  layout.devices = usable_devices_of(options);
  layout.on_cpu = layout.devices[0].is_cpu();
  layout.tp_size = tp_size < 0 ? layout.on_cpu ? 1 : layout.devices.size() : static_cast<size_t>(tp_size);
  if (layout.pp_size > 1 && layout.tp_size > 1)
    throw UserError(ExitCode::usage,
                    fmt::format("{} and {} are both above 1", engine_args.vllm_pipeline_parallel_size.flag(),
                                engine_args.vllm_tensor_parallel_size.flag()),
                    "a replica uses either a device map or pipeline parallelism");
  const auto needed = layout.dp_size * layout.pp_size * layout.tp_size;
  const bool fits = layout.on_cpu ? layout.pp_size == 1 : needed <= layout.devices.size();
  if (!fits)
    throw UserError(ExitCode::usage,
                    fmt::format("{} replicas ({}) of {} devices each ({}, {}) need {} devices; found: {}", layout.dp_size,
                                engine_args.vllm_data_parallel_size.flag(), layout.pp_size * layout.tp_size,
                                engine_args.vllm_pipeline_parallel_size.flag(), engine_args.vllm_tensor_parallel_size.flag(),
                                needed, names_of(layout.devices)),
                    "lower them, or make more devices visible (CUDA_VISIBLE_DEVICES, ASCEND_RT_VISIBLE_DEVICES)");
  if (needed > 1 && model_args.device_map.has_value())
    throw UserError(ExitCode::usage,
                    fmt::format("{} conflicts with data, pipeline or tensor parallel sizes: both place the model",
                                model_args.device_map.flag()),
                    "leave one of them out");
  return layout;
}

std::vector<at::Device> ParallelSizes::devices_of(size_t copy) const {
  const size_t each = pp_size * tp_size;
  if (on_cpu) return std::vector(each, devices[0]);
  auto first = devices.begin() + static_cast<std::ptrdiff_t>(copy * each);
  return {first, first + static_cast<std::ptrdiff_t>(each)};
}

ModelReplicas::ModelReplicas(const Options& options, const std::filesystem::path& folder, const text::Tokenizer& tokenizer)
    : layout_(engine_layout(options)) {
  if (layout_.tp_size > 1)
    model::TensorParallelDecoder::check(model::read_config(folder, rope_scaling_changes(options, folder)), layout_.tp_size);
  if (layout_.whole_or_on_cpu()) {
    models_.push_back(load_model(options, folder, tokenizer));
    return;
  }
  for (size_t i = 0; i < layout_.dp_size; ++i) {
    const auto own = layout_.devices_of(i);
    auto load = load_options(options, folder);
    load.changes.vocabulary = room_for(tokenizer, vocabulary_config(options));
    load.device = layout_.tp_size > 1 ? at::Device(at::kCPU) : own[0];  // shards are sliced from the file's tensors
    load.device_map = layout_.pp_size > 1
                          ? model::infer_device_map(folder, budgets_on(options, own), model::DeviceMapStrategy::balanced)
                          : model::DeviceMap{};
    models_.push_back(model::CausalLM::load(folder, load));
    log::info("replica {} is on {}", i + 1, names_of(own));
  }
}

void ModelReplicas::apply_tensor_parallel() {
  if (layout_.tp_size == 1) return;
  for (size_t i = 0; i < models_.size(); ++i) model::apply_tensor_parallel(*models_[i], layout_.devices_of(i));
}

std::vector<model::CausalLM*> ModelReplicas::replicas() const {
  std::vector<model::CausalLM*> all;
  for (const auto& model : models_) all.insert(all.end(), layout_.dp_size / models_.size(), model.get());
  return all;
}

}  // namespace hone::cli
