#include "hone/train/run_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <ctime>

#include "hone/base/log.h"
#include "hone/train/checkpoint.h"

namespace hone::train {
namespace {

int64_t highest_version(const fs::path& output_dir) {
  int64_t highest = -1;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(output_dir, ignored)) {
    std::string name = entry.path().filename().string();
    if (name.size() > 1 && name[0] == 'v' && std::isdigit(static_cast<unsigned char>(name[1])))
      highest = std::max<int64_t>(highest, std::atoll(name.c_str() + 1));
  }
  return highest;
}

std::string time_stamp() {
  auto now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts);
  return text;
}

bool holds_final_weights(const fs::path& folder) {
  static constexpr const char* kNames[] = {"model.safetensors", "adapter_model.safetensors", "model.safetensors.index.json",
                                           "pytorch_model.bin", "adapter_model.bin",         "pytorch_model.bin.index.json"};
  return std::any_of(std::begin(kNames), std::end(kNames), [&](const char* name) { return fs::exists(folder / name); });
}

}  // namespace

void check_output_folder(const fs::path& folder) {
  auto refuse = [&](const std::string& why, ExitCode code = ExitCode::usage) {
    throw UserError(code, fmt::format("output folder {}: {}", folder.string(), why),
                    code == ExitCode::out_of_space ? "free some space, or name another one with --output_dir" : "name another one with --output_dir");
  };
  std::error_code status;
  if (fs::exists(folder, status) && !fs::is_directory(folder)) refuse("is a file; expected a folder");
  fs::create_directories(folder, status);
  if (status) refuse("cannot be created: " + status.message(), status == std::errc::no_space_on_device ? ExitCode::out_of_space : ExitCode::usage);
  fs::path probe = folder / fmt::format(".hone-probe-{}", ::getpid());
  try {
    write_file_atomically(probe, "x");
    fs::remove(probe);
  } catch (const UserError& cause) {
    refuse(fmt::format("cannot be written to ({})", cause.what()), cause.code() == ExitCode::out_of_space ? cause.code() : ExitCode::usage);
  }
}

RunFolder make_run_folder(const TrainerConfig& config, std::string run_id) {
  if (config.continue_run) {
    sweep_leftovers(*config.continue_run, run_id);
    return {*config.continue_run, std::move(run_id)};
  }
  check_output_folder(config.output_dir);
  RunFolder run{fs::absolute(config.output_dir).lexically_normal(), std::move(run_id)};
  if (config.layout == Layout::swift && config.add_version) {
    // Another run may start in the same second: the folder is ours only if we made it.
    int64_t version = highest_version(run.root) + 1;
    fs::path made;
    do made = run.root / fmt::format("v{}-{}", version++, time_stamp());
    while (!fs::create_directory(made));
    run.root = made;
  } else if (config.overwrite_output_dir) {
    fs::remove(run.log_file(config.layout));
  }
  sweep_leftovers(run.root, run.run_id);
  return run;
}

void discard_unused(const TrainerConfig& config, const fs::path& run_folder) {
  if (config.layout != Layout::swift || !config.add_version || config.continue_run || run_folder.empty()) return;
  std::error_code ignored;
  bool used = fs::exists(run_folder / "logging.jsonl", ignored);
  for (const auto& entry : fs::directory_iterator(run_folder, ignored)) used |= entry.path().filename().string().starts_with("checkpoint-");
  if (!used) fs::remove_all(run_folder, ignored);
}

std::optional<fs::path> checkpoint_to_resume(const TrainerConfig& config, const std::string& run_id) {
  if (config.continue_run)
    if (auto newest = newest_checkpoint(*config.continue_run, run_id)) return newest;
  if (config.resume_from_checkpoint) {
    const fs::path& asked = *config.resume_from_checkpoint;
    if (asked == "true") {  // as in transformers: the newest of the folder
      if (auto newest = newest_checkpoint(config.output_dir, run_id)) return newest;
      throw UserError(
          ExitCode::bad_checkpoint,
          fmt::format("--resume_from_checkpoint true: {} holds no whole checkpoint of this run", config.output_dir.string()),
          "name the checkpoint folder");
    }
    if (!fs::is_directory(asked))
      throw UserError(ExitCode::bad_checkpoint,
                      fmt::format("--resume_from_checkpoint {}: there is no such folder", asked.string()));
    if (config.resume_only_model && !fs::exists(asked / "manifest.json")) return asked;  // another program's weights
    auto manifest = verify_checkpoint(asked);
    if (auto inside = manifest ? std::nullopt : newest_checkpoint(asked, run_id))
      throw UserError(ExitCode::bad_checkpoint, fmt::format("{} is a run; expected one of its checkpoints", asked.string()),
                      fmt::format("--resume_from_checkpoint {}", inside->string()));
    if (!manifest)
      throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: {}", asked.string(), manifest.error()),
                      "name an older checkpoint, or take its weights alone with --resume_only_model true");
    return asked;
  }
  if (!config.auto_resume || config.overwrite_output_dir || !fs::is_directory(config.output_dir)) return std::nullopt;
  auto newest = newest_checkpoint(config.output_dir, run_id);
  if (newest) log::info("continuing from {}; start anew with --overwrite_output_dir true", newest->string());
  if (!newest && holds_final_weights(config.output_dir))
    throw UserError(
        ExitCode::usage,
        fmt::format("{} already holds a trained model and no checkpoint to continue from", config.output_dir.string()),
        "name another --output_dir, or write over it with --overwrite_output_dir true");
  return newest;
}

void point_link(const RunFolder& run, const std::string& name, const fs::path& checkpoint) {
  fs::path link = run.root / name, fresh = run.root / fmt::format(".{}.{}", name, ::getpid());
  std::error_code status;
  fs::remove(fresh, status);
  fs::create_directory_symlink(checkpoint.filename(), fresh, status);
  if (!status) fs::rename(fresh, link, status);
  if (status) log::warning("cannot point {} at {}: {}", link.string(), checkpoint.filename().string(), status.message());
}

}  // namespace hone::train
