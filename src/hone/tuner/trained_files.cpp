#include "hone/tuner/trained_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "hone/base/error.h"
#include "hone/io/value_head.h"
#include "hone/io/weight_folder.h"
#include "hone/model/decoder.h"
#include "hone/tuner/adapter_files.h"
#include "hone/tuner/lora_ga.h"
#include "hone/tuner/model_folder.h"

namespace hone::tuner {
namespace {

// A value head has its own file, next to weights and adapters alike.
void save_value_head(model::CausalLM& model, const fs::path& folder, const ReadWeight& read) {
  std::vector<io::TensorSource> sources;
  for (const auto& parameter : model.parameters()) {
    if (!io::is_of_value_head(parameter.name)) continue;
    sources.push_back(io::TensorSource::of(parameter.name, parameter.value->detach()));
    if (read) sources.back().load = [read, value = *parameter.value] { return read(value); };
  }
  if (!sources.empty()) io::write_safetensors(folder / io::kValueHeadFile, sources);
}

constexpr const char* kSameOptions =
    "continue with the target_modules and modules_to_save of the run that saved it; its args.json has them";

// Reported before shapes are compared; a pair without a place in this run would be lost silently.
void require_same_adapter(const io::Adapter& saved, const Tuned& own, const fs::path& folder) {
  if (saved.config.peft_type != own.adapter->config.peft_type)
    throw UserError(ExitCode::bad_checkpoint,
                    fmt::format("{}: its adapter is of the kind {}, this run's is {}", folder.string(), saved.config.peft_type,
                                own.adapter->config.peft_type),
                    "continue with the `tuner_type` of the run that saved it; its args.json has it");
  if (int64_t rank = saved.config.rank, other = own.adapter->config.rank; rank != other)
    throw UserError(ExitCode::bad_checkpoint,
                    fmt::format("{}: its adapter has rank {}, this run's has rank {}", folder.string(), rank, other),
                    fmt::format("continue with `lora_rank` {}, or start from scratch without the checkpoint", rank));
  for (const auto& [name, tensor] : saved.tensors) {
    bool trained = std::ranges::any_of(own.trainable, [&](const auto& parameter) { return parameter.first == name; });
    if (!trained && name.find(".lora_") != name.npos)
      throw UserError(ExitCode::bad_checkpoint,
                      fmt::format("{}: the adapter holds \"{}\", which this run does not train", folder.string(), name),
                      kSameOptions);
  }
}

void copy_checked(Tensor target, const Tensor& source, const std::string& name, const fs::path& folder, const CopyWeight& copy) {
  if (source.sizes() != target.sizes())
    throw UserError(ExitCode::bad_checkpoint,
                    fmt::format("{}: {} has shape {}, expected {}", folder.string(), name, fmt::join(source.sizes(), "x"),
                                fmt::join(target.sizes(), "x")),
                    "continue with the model and the tuning options of the run that saved it; its args.json has them");
  at::NoGradGuard no_grad;
  if (copy)
    copy(target, source);
  else
    target.copy_(source);
}

}  // namespace

void save_trained(model::CausalLM& model, const Tuned& tuned, const fs::path& folder, size_t max_shard_bytes,
                  const ReadWeight& read) {
  if (tuned.adapter) {
    save_adapter(model, *tuned.adapter, folder);
    if (tuned.adapter->config.init == kLoraGa) save_init_lora(*tuned.adapter, folder / kInitialFolder);
    if (!tuned.adapter->initial.empty()) save_converted_adapter(model, *tuned.adapter, folder / "converted" / "default");
    save_value_head(model, folder, read);
    return;
  }
  std::vector<io::TensorSource> sources;
  for (const auto& parameter : model.parameters()) {
    if (io::is_of_value_head(parameter.name)) continue;
    sources.push_back(io::TensorSource::of(parameter.name, parameter.value->detach()));
    if (read) sources.back().load = [read, value = *parameter.value] { return read(value); };
  }
  append_carried(model, sources);
  if (const auto& experts = model.config().experts; experts.count > 0)
    sources = io::unstack_experts(std::move(sources), experts.stored_as);
  sources = io::StoredNames::of(model.config().source).stored(std::move(sources));
  io::write_sharded(folder, sources, max_shard_bytes);
  save_value_head(model, folder, read);
}

void save_pissa_conversion(model::CausalLM& model, const AttachedAdapter& adapter, const fs::path& folder) {
  save_init_lora(adapter, folder / "pissa_init");
  save_adapter(model, adapter, folder / "pissa_backup");
  save_converted_adapter(model, adapter, folder / "pissa_converted");
}

void load_trained(model::CausalLM& model, const Tuned& tuned, const fs::path& folder, const CopyWeight& copy) {
  std::map<std::string, Tensor> values;
  if (model.decoder().value_head) {
    auto head = io::read_value_head(folder, model.config().hidden_size);
    values = {{fmt::format("{}.weight", io::kValueHead), head.weight}, {fmt::format("{}.bias", io::kValueHead), head.bias}};
  }
  if (tuned.adapter) {
    const auto files = io::read_adapter(folder);
    require_same_adapter(files, tuned, folder);
    std::map<std::string, Tensor> saved(files.tensors.begin(), files.tensors.end());
    saved.insert(values.begin(), values.end());
    for (const auto& [name, tensor] : tuned.trainable) {
      auto found = saved.find(name);
      if (found == saved.end())
        throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: the adapter has no \"{}\"", folder.string(), name),
                        kSameOptions);
      copy_checked(tensor, found->second, name, folder, copy);
    }
    return;
  }
  if (io::adapter_files_in(folder))
    throw UserError(ExitCode::bad_checkpoint, folder.string() + ": holds an adapter; this run trains the model's own weights",
                    "continue with `tuner_type` lora, or merge it with `merge_lora` of export and name the result in `model`");
  const io::WeightFolder files(folder);
  for (const auto& [name, tensor] : tuned.trainable) {
    auto value = values.find(name);
    copy_checked(tensor, value == values.end() ? files.tensor(name) : value->second, name, folder, copy);
  }
}

}  // namespace hone::tuner
