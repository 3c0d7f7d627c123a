#include "hone/cli/jobs/placement_job.h"

#include <cstdlib>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/cli/jobs/engine_settings.h"
#include "hone/cli/jobs/model_checks.h"
#include "hone/cli/jobs/model_job.h"
#include "hone/cli/jobs/parallel_job.h"
#include "hone/device/memory.h"
#include "hone/device/several.h"
#include "hone/model/sliced_decoder.h"
#include "hone/model/spread.h"

namespace hone::cli {
namespace {

constexpr double kForWeights = 0.9;  // of what is free on a device: the rest is for what is computed

std::vector<at::Device> usable_devices_of(const Options& options) {
  bool on_cpu = options.flag("use_cpu") || launched_on_cpu(options);
  return device::pick_all(on_cpu ? "cpu" : options.text("devices"));
}

std::string names_of(const std::vector<at::Device>& devices) {
  std::string names;
  for (auto device : devices) names += (names.empty() ? "" : ", ") + device.str();
  return names;
}

std::vector<model::Room> rooms_on(const Options& options, const std::vector<at::Device>& devices) {
  std::vector<model::Room> rooms;
  for (auto device : devices) {
    at::empty({1}, at::TensorOptions().device(device));  // an allocator counts once it was asked for something
    auto use = device::memory_use(device);
    auto free = static_cast<double>(use.total - use.current) * kForWeights;
    rooms.push_back({device, memory_limit(options, device).value_or(free)});
  }
  return rooms;
}

// {"model.embed_tokens": 0, "model.layers.0": "npu:1", "lm_head": "cpu"}: numbers are places among the devices in sight.
model::Placement named_places(const Options& options, const Json& map, const std::vector<at::Device>& devices) {
  model::Placement placement;
  for (const auto& [name, place] : map.items()) {
    auto text = place.is_number_integer() ? std::to_string(place.get<int64_t>()) : place.is_string() ? place.get<std::string>() : place.dump();
    auto found = std::ranges::find_if(devices, [&](at::Device device) {
      return text == device.str() || (!device.is_cpu() && text == std::to_string(device.index()));
    });
    bool on_cpu = text == "cpu";
    if (found == devices.end() && !on_cpu)
      throw UserError(ExitCode::usage, fmt::format("{} puts \"{}\" on {}; found: cpu, {}", options.shown("device_map"), name, place.dump(), names_of(devices)),
                      "name devices that are there, or auto");
    placement.insert_or_assign(name, on_cpu ? at::Device(at::kCPU) : *found);
  }
  return placement;
}

std::optional<model::Spread> spread_named(const Json& map) {
  if (map == "auto" || map == "balanced") return model::Spread::balanced;
  if (map == "balanced_low_0") return model::Spread::low_first;
  if (map == "sequential") return model::Spread::sequential;
  return std::nullopt;
}

void check_one_process(const Options& options) {
  const char* ranks = std::getenv("LOCAL_WORLD_SIZE");
  if (!ranks || std::atoi(ranks) < 2) return;
  throw UserError(ExitCode::usage, fmt::format("{} spreads a model over the devices of one process, and {} run here", options.shown("device_map"), ranks),
                  "leave it out, and shard the model by --deepspeed zero3 if it is too large");
}

}  // namespace

model::Placement placement_of(const Options& options, const std::filesystem::path& folder, at::Device first) {
  if (!options.knows("device_map") || !options.has("device_map")) return {};
  const auto& map = options.setting("device_map").value;
  const auto how = spread_named(map);
  if (!how && !(map.is_object() && map.size() > 1)) return {};  // one device for all
  check_one_process(options);
  const auto devices = usable_devices_of(options);
  if (map.is_object()) return named_places(options, map, devices);
  if (devices.size() < 2) return {};
  auto placement = model::spread_over(folder, rooms_on(options, devices), *how);
  log::info("the model is spread over {}", names_of(devices));
  HONE_CHECK(model::device_for(placement, "model.embed_tokens.weight", first) == devices[0]);
  return placement;
}

int64_t copies_of(const Options& options) { return engine_integer(options, "vllm_data_parallel_size", "data_parallel_size"); }

EngineLayout engine_layout(const Options& options) {
  EngineLayout layout;
  layout.copies = static_cast<size_t>(copies_of(options));
  layout.stages = static_cast<size_t>(engine_integer(options, "vllm_pipeline_parallel_size", "pipeline_parallel_size"));
  const auto slices = engine_integer(options, "vllm_tensor_parallel_size", "tensor_parallel_size");
  if (slices == 0) throw UserError(ExitCode::usage, fmt::format("{} is 0", options.shown("vllm_tensor_parallel_size")), "expected 1 or more, or -1 for all devices");
  if (layout.copies * layout.stages == 1 && slices == 1) return layout;
  layout.devices = usable_devices_of(options);
  layout.on_cpu = layout.devices[0].is_cpu();
  layout.slices = slices < 0 ? layout.on_cpu ? 1 : layout.devices.size() : static_cast<size_t>(slices);
  if (layout.stages > 1 && layout.slices > 1)
    throw UserError(ExitCode::usage, fmt::format("{} and {} are both above 1", options.shown("vllm_pipeline_parallel_size"), options.shown("vllm_tensor_parallel_size")),
                    "a copy of the model is spread one way or the other");
  const auto needed = layout.copies * layout.stages * layout.slices;
  const bool fits = layout.on_cpu ? layout.stages == 1 : needed <= layout.devices.size();
  if (!fits)
    throw UserError(ExitCode::usage,
                    fmt::format("{} copies of the model ({}) over {} devices each ({}, {}) take {} devices; found: {}", layout.copies,
                                options.shown("vllm_data_parallel_size"), layout.stages * layout.slices, options.shown("vllm_pipeline_parallel_size"),
                                options.shown("vllm_tensor_parallel_size"), needed, names_of(layout.devices)),
                    "lower them, or let more devices be seen (CUDA_VISIBLE_DEVICES, ASCEND_RT_VISIBLE_DEVICES)");
  if (needed > 1 && options.knows("device_map") && options.has("device_map"))
    throw UserError(ExitCode::usage, fmt::format("{} and copies or parts of a model both say where it lies", options.shown("device_map")), "leave one of them out");
  return layout;
}

std::vector<at::Device> EngineLayout::devices_of(size_t copy) const {
  const size_t each = stages * slices;
  if (on_cpu) return std::vector(each, devices[0]);
  auto first = devices.begin() + static_cast<std::ptrdiff_t>(copy * each);
  return {first, first + static_cast<std::ptrdiff_t>(each)};
}

ModelCopies::ModelCopies(const Options& options, const std::filesystem::path& folder, const text::Tokenizer& tokenizer) : layout_(engine_layout(options)) {
  if (layout_.slices > 1) model::SlicedDecoder::check(model::read_config(folder, config_changes(options, folder)), layout_.slices);
  if (layout_.whole_or_on_cpu()) {
    models_.push_back(load_model(options, folder, tokenizer));
    return;
  }
  for (size_t i = 0; i < layout_.copies; ++i) {
    const auto own = layout_.devices_of(i);
    auto load = load_options(options, folder);
    load.changes.vocabulary = room_for(tokenizer, options);
    load.device = layout_.slices > 1 ? at::Device(at::kCPU) : own[0];  // slices are cut out of what lies in the file
    load.places = layout_.stages > 1 ? model::spread_over(folder, rooms_on(options, own), model::Spread::balanced) : model::Placement{};
    models_.push_back(model::CausalLM::load(folder, load));
    log::info("copy {} of the model lies on {}", i + 1, names_of(own));
  }
}

void ModelCopies::cut() {
  if (layout_.slices == 1) return;
  for (size_t i = 0; i < models_.size(); ++i) models_[i]->cut_into_slices(layout_.devices_of(i));
}

std::vector<model::CausalLM*> ModelCopies::replicas() const {
  std::vector<model::CausalLM*> all;
  for (const auto& model : models_) all.insert(all.end(), layout_.copies / models_.size(), model.get());
  return all;
}

}  // namespace hone::cli
