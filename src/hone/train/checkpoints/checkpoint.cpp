#include "hone/train/checkpoints/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <system_error>

#include "hone/base/fault_injection.h"
#include "hone/base/log.h"
#include "hone/io/newest_checkpoint.h"
#include "hone/train/checkpoints/saved_state.h"
#include "hone/train/reports/crc32c.h"

namespace hone::train {
namespace {

constexpr const char* kManifest = "manifest.json";
constexpr int kMostProcesses = 1 << 20;

void sync_file(const fs::path& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), path.string());
  int status = ::fsync(fd), cause = errno;
  ::close(fd);
  if (status != 0) throw std::system_error(cause, std::generic_category(), path.string());
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

CheckpointFile describe(const fs::path& folder, const fs::path& path) {
  MappedFile file(path);
  return {path.lexically_relative(folder).generic_string(), file.bytes().size(), crc32c(file.bytes())};
}

std::optional<std::string> run_of(const fs::path& checkpoint) {
  auto manifest = read_manifest(checkpoint);
  return manifest ? std::optional(manifest->run_id) : std::nullopt;
}

bool is_weights_file(std::string_view name) {
  name.remove_prefix(name.rfind('/') + 1);  // ms-swift stores adapters in a subfolder
  return name == "adapter_model.safetensors" || name == "model.safetensors" || name == "model.safetensors.index.json";
}

// Shards listed in the index but not in the manifest: their integrity cannot be checked.
std::string missing_shard(const fs::path& folder, const Manifest& manifest) {
  auto stated = [&](const std::string& name) {
    return std::ranges::any_of(manifest.files, [&](const CheckpointFile& file) { return file.name == name; });
  };
  if (!stated("model.safetensors.index.json")) return "";
  auto index = parse_json(read_file(folder / "model.safetensors.index.json"));
  if (!index || !index->is_object() || !index->value("weight_map", Json()).is_object())
    return "a readable model.safetensors.index.json";
  for (const auto& [tensor, shard] : (*index)["weight_map"].items())
    if (!shard.is_string() || !stated(shard.get<std::string>()))
      return shard.is_string() ? shard.get<std::string>() : "a shard's name";
  return "";
}

void remove_leftovers(const fs::path& run_folder, const std::function<bool(const std::string& name)>& is_leftover) {
  std::error_code ignored;
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(run_folder, ignored))
    if (auto name = entry.path().filename().string(); name.starts_with("checkpoint-") && is_leftover(name))
      leftovers.push_back(entry.path());
  for (const auto& path : leftovers) fs::remove_all(path, ignored);
}

// Frees the final name: replaces our own older save of the same step, and renames another run's unless it is to be
// overwritten.
fs::path move_aside(const fs::path& occupied, const std::string& run_id, bool overwrites) {
  if (overwrites || run_of(occupied) == run_id) {
    fs::path aside = fmt::format("{}.deleting-{}", occupied.string(), run_id);
    fs::remove_all(aside);
    fs::rename(occupied, aside);
    return aside;
  }
  fs::path kept;
  for (int n = 1; kept.empty() || fs::exists(kept); ++n) kept = fmt::format("{}.other-{}", occupied.string(), n);
  fs::rename(occupied, kept);
  log::warning("{} was not written by this run; it is kept as {}", occupied.string(), kept.filename().string());
  return {};
}

}  // namespace

std::vector<std::pair<int64_t, fs::path>> checkpoints_newest_first(const fs::path& run_folder) {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run_folder, ignored))
    if (auto step = io::checkpoint_step(entry.path()); step && entry.is_directory() && !entry.is_symlink())
      found.emplace_back(*step, entry.path());
  std::sort(found.rbegin(), found.rend());
  return found;
}

Json Manifest::to_json() const {
  Json list = Json::array();
  for (const auto& file : files)
    list.push_back({{"name", file.name}, {"size", file.size}, {"crc32c", fmt::format("{:08x}", file.crc32c)}});
  return {{"schema", schema},
          {"written_by", "hone"},
          {"run_id", run_id},
          {"trains_on", trains_on},
          {"step", step},
          {"saved_at", saved_at},
          {"processes", processes},
          {"weights_alone", weights_alone},
          {"files", std::move(list)}};
}

std::string Manifest::missing_file() const {
  auto stated = [&](const std::string& name) {
    return std::ranges::any_of(files, [&](const CheckpointFile& file) { return file.name == name; });
  };
  if (std::ranges::none_of(files, [](const CheckpointFile& file) { return is_weights_file(file.name); })) return "the weights";
  std::vector<std::string> needed;
  if (processes > 0) needed.push_back("trainer_state.json");
  for (int rank = 0; rank < processes; ++rank) {
    needed.push_back(state_name(rank, "json"));
    if (!weights_alone) needed.push_back(state_name(rank, "safetensors"));
  }
  auto missing = std::ranges::find_if_not(needed, stated);
  return missing == needed.end() ? "" : *missing;
}

Result<Manifest> Manifest::from_json(const Json& json) {
  try {
    Manifest manifest;
    manifest.schema = json.at("schema").get<int>();
    if (manifest.schema < 1 || manifest.schema > kCheckpointSchema)
      return error("manifest.json has schema {}; this program reads 1 to {}", manifest.schema, kCheckpointSchema);
    manifest.run_id = json.value("run_id", "");
    manifest.trains_on = json.value("trains_on", manifest.run_id);
    manifest.saved_at = json.value("saved_at", 0.0);
    manifest.processes = json.value("processes", 0);
    manifest.weights_alone = json.value("weights_alone", false);
    if (manifest.processes < 0 || manifest.processes > kMostProcesses)
      return error("manifest.json states {} processes", manifest.processes);
    manifest.step = json.at("step").get<int64_t>();
    for (const auto& entry : json.at("files")) {
      auto digits = entry.at("crc32c").get<std::string>();
      CheckpointFile file{entry.at("name").get<std::string>(), entry.at("size").get<uint64_t>(), 0};
      auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), file.crc32c, 16);
      if (status != std::errc() || end != digits.data() + digits.size())
        return error("manifest.json: \"{}\" is not a checksum", digits);
      manifest.files.push_back(std::move(file));
    }
    return manifest;
  } catch (const Json::exception& cause) {
    return error("manifest.json is damaged: {}", cause.what());
  }
}

CheckpointWriter::CheckpointWriter(const fs::path& run_folder, Manifest head, bool overwrites)
    : run_folder_(run_folder),
      final_(run_folder / checkpoint_name(head.step)),
      manifest_(std::move(head)),
      overwrites_(overwrites) {
  staging_ = staging_folder(run_folder, manifest_.step, manifest_.run_id);
  fs::remove_all(staging_);
  fs::create_directories(staging_);
  fault("checkpoint.before_first_byte");
}

fs::path CheckpointWriter::staging_folder(const fs::path& run_folder, int64_t step, const std::string& run_id) {
  return run_folder / fmt::format("{}.partial-{}", checkpoint_name(step), run_id);
}

CheckpointWriter::~CheckpointWriter() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(staging_, ignored);
}

void CheckpointWriter::part(const std::function<void(const fs::path&)>& write) {
  fault("checkpoint.write");
  write(staging_);
}

fs::path CheckpointWriter::commit() {
  for (const auto& path : files_below(staging_)) {
    fault("checkpoint.write");
    sync_file(path);
    manifest_.files.push_back(describe(staging_, path));
  }
  if (auto missing = manifest_.missing_file(); !missing.empty())
    throw std::runtime_error(fmt::format("{} is not among what was written", missing));
  manifest_.saved_at = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  fault("checkpoint.before_manifest");
  write_file_atomically(staging_ / kManifest, manifest_.to_json().dump(1));
  fault("checkpoint.before_rename");
  fs::path replaced = fs::exists(final_) ? move_aside(final_, manifest_.run_id, overwrites_) : fs::path();
  fs::rename(staging_, final_);
  committed_ = true;
  sync_directory(run_folder_);
  fault("checkpoint.after_rename");
  std::error_code ignored;
  if (!replaced.empty()) fs::remove_all(replaced, ignored);
  return final_;
}

std::string checkpoint_name(int64_t step) { return fmt::format("checkpoint-{}", step); }

fs::path merged_checkpoint(const fs::path& checkpoint) { return checkpoint.string() + "-merged"; }

Result<Manifest> read_manifest(const fs::path& folder) {
  std::error_code unreadable;  // a folder without access contains nothing for us
  auto has = [&](const char* name) { return fs::exists(folder / name, unreadable); };
  if (!has(kManifest)) {
    // transformers, and so ms-swift and LLaMA-Factory, store the optimizer as Python pickles, which may execute code when
    // loaded.
    if (has("optimizer.pt")) return error("another program wrote it; optimizer.pt is a Python pickle, which hone never opens");
    if (!has("trainer_state.json") && !has("adapter_config.json") && !has("config.json"))
      return error("no manifest.json, and nothing else of a checkpoint");
    return error("no manifest.json: another program wrote it, or its save was interrupted");
  }
  try {
    auto json = parse_json(read_file(folder / kManifest));
    if (!json) return error("manifest.json is damaged: {}", json.error());
    return Manifest::from_json(*json);
  } catch (const std::exception& cause) {
    return error("{}", cause.what());
  }
}

Result<Manifest> verify_checkpoint(const fs::path& folder) {
  try {
    auto manifest = read_manifest(folder);
    if (!manifest) return manifest;
    if (auto missing = manifest->missing_file(); !missing.empty()) return error("manifest.json does not list {}", missing);
    for (const auto& stated : manifest->files) {
      fs::path path = folder / stated.name;
      if (!is_inside(folder, path)) return error("manifest.json names \"{}\", which is outside the folder", stated.name);
      if (!fs::is_regular_file(path)) return error("{} is missing", stated.name);
      if (auto size = fs::file_size(path); size != stated.size)
        return error("{} has {} bytes; {} were written", stated.name, size, stated.size);
      if (describe(folder, path).crc32c != stated.crc32c) return error("{} does not match its checksum", stated.name);
    }
    if (auto missing = missing_shard(folder, *manifest); !missing.empty())
      return error("manifest.json does not list {}", missing);
    return manifest;
  } catch (const std::exception& cause) {
    return error("{}", cause.what());
  }
}

std::optional<fs::path> newest_checkpoint(const fs::path& run_folder, std::string_view run_id) {
  for (const auto& [step, folder] : checkpoints_newest_first(run_folder)) {
    if (run_of(folder) != run_id) continue;
    auto manifest = verify_checkpoint(folder);
    if (manifest) return folder;
    log::warning("{} is skipped: {}", folder.string(), manifest.error());
  }
  return std::nullopt;
}

void retain_checkpoints(const fs::path& run_folder, std::string_view run_id, int64_t limit, const std::vector<fs::path>& keep) {
  auto is_kept = [&](const fs::path& folder) {
    return std::any_of(keep.begin(), keep.end(), [&](const fs::path& kept) { return kept.filename() == folder.filename(); });
  };
  const auto doomed_before = fmt::format(".deleting-{}", run_id);  // folders that an earlier call could not remove
  remove_leftovers(run_folder, [&](const std::string& name) { return name.ends_with(doomed_before); });
  std::vector<fs::path> own;
  for (const auto& [step, folder] : checkpoints_newest_first(run_folder))
    if (run_of(folder) == run_id) own.push_back(folder);
  for (auto count = static_cast<int64_t>(own.size()); count > std::max<int64_t>(limit, 1) && !own.empty(); own.pop_back()) {
    if (is_kept(own.back())) continue;
    --count;
    try {
      fs::path doomed = fmt::format("{}.deleting-{}", own.back().string(), run_id);
      fs::remove_all(merged_checkpoint(own.back()));  // first: without its checkpoint nothing would find it again
      fs::rename(own.back(), doomed);
      fault("checkpoint.during_retention");
      fs::remove_all(doomed);
    } catch (const std::system_error& cause) {
      log::warning("cannot remove the old {}: {}; it is tried again after the next save", own.back().string(),
                   cause.code().message());
    }
  }
}

void sweep_leftovers(const fs::path& run_folder) {
  remove_leftovers(run_folder, [](const std::string& name) {
    return name.find(".partial-") != name.npos || name.find(".deleting-") != name.npos;
  });
}

}  // namespace hone::train
