#include "hone/train/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "hone/base/fault.h"
#include "hone/base/log.h"
#include "hone/train/crc32c.h"

namespace hone::train {
namespace {

constexpr const char* kManifest = "manifest.json";

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
  try {
    auto json = parse_json(read_file(checkpoint / kManifest));
    if (!json) return std::nullopt;
    auto manifest = Manifest::from_json(*json);
    if (manifest) return manifest->run_id;
  } catch (const UserError&) {
  }
  return std::nullopt;
}

// Frees the final name: our own older save of the same step is replaced, a stranger's is kept under another name.
fs::path move_aside(const fs::path& occupied, const std::string& run_id) {
  auto owner = run_of(occupied);
  if (owner == run_id) {
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

std::vector<std::pair<int64_t, fs::path>> checkpoints_newest_first(const fs::path& run_folder) {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run_folder, ignored))
    if (auto step = checkpoint_step(entry.path()); step && entry.is_directory() && !entry.is_symlink())
      found.emplace_back(*step, entry.path());
  std::sort(found.rbegin(), found.rend());
  return found;
}

}  // namespace

Json Manifest::to_json() const {
  Json list = Json::array();
  for (const auto& file : files)
    list.push_back({{"name", file.name}, {"size", file.size}, {"crc32c", fmt::format("{:08x}", file.crc32c)}});
  return {{"schema", schema}, {"written_by", "hone"}, {"run_id", run_id}, {"step", step}, {"files", std::move(list)}};
}

Result<Manifest> Manifest::from_json(const Json& json) {
  try {
    Manifest manifest;
    manifest.schema = json.at("schema").get<int>();
    if (manifest.schema < 1 || manifest.schema > kCheckpointSchema)
      return error("manifest.json has schema {}; this program reads 1 to {}", manifest.schema, kCheckpointSchema);
    manifest.run_id = json.at("run_id").get<std::string>();
    manifest.step = json.at("step").get<int64_t>();
    for (const auto& entry : json.at("files")) {
      auto digits = entry.at("crc32c").get<std::string>();
      CheckpointFile file{entry.at("name").get<std::string>(), entry.at("size").get<uint64_t>(), 0};
      auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), file.crc32c, 16);
      if (status != std::errc() || end != digits.data() + digits.size())
        return error("manifest.json: \"{}\" is no checksum", digits);
      manifest.files.push_back(std::move(file));
    }
    return manifest;
  } catch (const nlohmann::json::exception& cause) {
    return error("manifest.json is damaged: {}", cause.what());
  }
}

CheckpointWriter::CheckpointWriter(const fs::path& run_folder, int64_t step, std::string run_id)
    : run_folder_(run_folder),
      final_(run_folder / checkpoint_name(step)),
      manifest_{kCheckpointSchema, std::move(run_id), step, {}} {
  staging_ = staging_folder(run_folder, step, manifest_.run_id);
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
  fault("checkpoint.before_manifest");
  write_file_atomically(staging_ / kManifest, manifest_.to_json().dump(1));
  fault("checkpoint.before_rename");
  fs::path replaced = fs::exists(final_) ? move_aside(final_, manifest_.run_id) : fs::path();
  fs::rename(staging_, final_);
  committed_ = true;
  sync_directory(run_folder_);
  fault("checkpoint.after_rename");
  std::error_code ignored;
  if (!replaced.empty()) fs::remove_all(replaced, ignored);
  return final_;
}

std::string checkpoint_name(int64_t step) { return fmt::format("checkpoint-{}", step); }

std::optional<int64_t> checkpoint_step(const fs::path& folder) {
  static constexpr std::string_view kPrefix = "checkpoint-";
  std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = 0;
  auto [end, status] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  if (status != std::errc() || end != name.data() + name.size() || step < 0) return std::nullopt;
  return step;
}

Result<Manifest> verify_checkpoint(const fs::path& folder) {
  if (!fs::exists(folder / kManifest)) {
    // transformers, and so ms-swift and LLaMA-Factory, keep the optimizer in Python pickles, which may run code when they are opened.
    if (fs::exists(folder / "optimizer.pt")) return error("another program wrote it; optimizer.pt is a Python pickle, which hone never opens");
    return error("no manifest.json: another program wrote it, or its save was cut short");
  }
  try {
    auto json = parse_json(read_file(folder / kManifest));
    if (!json) return error("manifest.json is damaged: {}", json.error());
    auto manifest = Manifest::from_json(*json);
    if (!manifest) return manifest;
    for (const auto& stated : manifest->files) {
      fs::path path = folder / stated.name;
      if (!is_inside(folder, path)) return error("manifest.json names \"{}\", which lies outside the folder", stated.name);
      if (!fs::is_regular_file(path)) return error("{} is missing", stated.name);
      if (auto size = fs::file_size(path); size != stated.size)
        return error("{} has {} bytes; {} were written", stated.name, size, stated.size);
      if (describe(folder, path).crc32c != stated.crc32c) return error("{} does not match its checksum", stated.name);
    }
    return manifest;
  } catch (const std::exception& cause) {
    return error("{}", cause.what());
  }
}

std::optional<fs::path> newest_checkpoint(const fs::path& run_folder, std::string_view run_id) {
  for (const auto& [step, folder] : checkpoints_newest_first(run_folder)) {
    auto manifest = verify_checkpoint(folder);
    if (!manifest)
      log::warning("{} is passed over: {}", folder.string(), manifest.error());
    else if (manifest->run_id != run_id)
      log::warning(
          "{} is passed over: it belongs to another run (other model, data or tuner); name it in --resume_from_checkpoint to "
          "continue it",
          folder.string());
    else
      return folder;
  }
  return std::nullopt;
}

void retain_checkpoints(const fs::path& run_folder, std::string_view run_id, int64_t limit, const std::vector<fs::path>& keep) {
  auto is_kept = [&](const fs::path& folder) {
    return std::any_of(keep.begin(), keep.end(), [&](const fs::path& kept) { return kept.filename() == folder.filename(); });
  };
  std::vector<fs::path> own;
  for (const auto& [step, folder] : checkpoints_newest_first(run_folder))
    if (run_of(folder) == run_id) own.push_back(folder);
  for (auto count = static_cast<int64_t>(own.size()); count > std::max<int64_t>(limit, 1) && !own.empty(); own.pop_back()) {
    if (is_kept(own.back())) continue;
    --count;
    try {
      fs::path doomed = fmt::format("{}.deleting-{}", own.back().string(), run_id);
      fs::rename(own.back(), doomed);
      fault("checkpoint.during_retention");
      fs::remove_all(doomed);
    } catch (const std::system_error& cause) {
      log::warning("cannot remove the old {}: {}; it is tried again after the next save", own.back().string(),
                   cause.code().message());
    }
  }
}

void sweep_leftovers(const fs::path& run_folder, std::string_view run_id) {
  std::error_code ignored;
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(run_folder, ignored)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with("checkpoint-") &&
        (name.ends_with(fmt::format(".partial-{}", run_id)) || name.ends_with(fmt::format(".deleting-{}", run_id))))
      leftovers.push_back(entry.path());
  }
  for (const auto& path : leftovers) fs::remove_all(path, ignored);
}

}  // namespace hone::train
