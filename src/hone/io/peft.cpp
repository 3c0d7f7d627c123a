#include "hone/io/peft.h"

#include "hone/base/file.h"
#include "hone/io/newest_checkpoint.h"

namespace hone::io {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kOutside = "base_model.";  // prefix of tensors that belong to no module
constexpr const char* kConfigFile = "adapter_config.json";
constexpr const char* kWeightsFile = "adapter_model.safetensors";
constexpr const char* kSwiftFolder = "default";  // the only adapter name that ms-swift trains

}  // namespace

std::optional<fs::path> adapter_files_in(const fs::path& folder) {
  for (const auto& place : {folder, folder / kSwiftFolder})
    if (fs::exists(place / kConfigFile)) return place;
  return std::nullopt;
}

AdapterConfig read_adapter_config(const fs::path& folder) {
  const auto files = adapter_files_in(folder);
  if (auto inside = newest_checkpoint_in(folder); !files && inside)
    throw UserError(ExitCode::bad_checkpoint, folder.string() + " is a run; expected one of its checkpoints",
                    "the newest is " + inside->string());
  if (!files && fs::exists(folder / "reft" / kConfigFile))
    throw UserError(
        ExitCode::bad_checkpoint,
        fmt::format("{} holds ReFT as ms-swift keeps it: in pickles, which hone never reads", (folder / "reft").string()),
        "train it again with `tuner_type` reft, which is saved as safetensors");
  if (!files)
    throw UserError(ExitCode::bad_checkpoint, fmt::format("{} holds no {}", folder.string(), kConfigFile),
                    "an adapter folder is a checkpoint of a LoRA run, e.g. output/…/checkpoint-100");
  const fs::path path = *files / kConfigFile;
  return parse_adapter_config(read_file(path)).or_throw(ExitCode::bad_checkpoint, path.string());
}

Adapter read_adapter(const fs::path& folder) {
  Adapter adapter{read_adapter_config(folder), {}};
  const fs::path files = *adapter_files_in(folder), path = files / kWeightsFile;
  if (!fs::exists(path))
    throw UserError(ExitCode::bad_checkpoint, fmt::format("{} holds no {}", files.string(), kWeightsFile),
                    fs::exists(files / "adapter_model.bin")
                        ? "adapter_model.bin is a pickle, which hone never reads; save it with safe_serialization=True"
                        : "the folder is not a complete checkpoint");
  SafetensorsFile file(path);
  for (const auto& entry : file.entries()) {
    if (!adapter.config.is_swift_tuner && !entry.name.starts_with(kOutside))
      throw UserError(ExitCode::bad_checkpoint,
                      fmt::format("{}: tensor \"{}\" does not start with {}", path.string(), entry.name, kPrefix));
    const bool of_module = entry.name.starts_with(kPrefix);
    adapter.tensors.emplace_back(of_module ? entry.name.substr(kPrefix.size()) : entry.name, file.tensor(entry));
  }
  return adapter;
}

void write_adapter(const fs::path& folder, const Adapter& adapter) {
  const fs::path files = adapter.config.is_swift_tuner ? folder / kSwiftFolder : folder;
  fs::create_directories(files);
  std::vector<TensorSource> sources;
  for (const auto& [name, tensor] : adapter.tensors) {
    const bool whole_name = adapter.config.is_swift_tuner || name.starts_with(kOutside);
    sources.push_back(TensorSource::of(whole_name ? name : std::string(kPrefix) + name, tensor));
  }
  write_safetensors(files / kWeightsFile, sources);
  write_file_atomically(files / kConfigFile, to_json(adapter.config).dump(2) + "\n");
}

}  // namespace hone::io
