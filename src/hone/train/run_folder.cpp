#include "hone/train/run_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <ctime>

#include "hone/base/log.h"
#include "hone/train/checkpoints/checkpoint.h"

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

// The given path: a checkpoint, or a run, of which the newest checkpoint is used.
fs::path asked_checkpoint(const fs::path& asked, bool weights_alone) {
  if (!fs::is_directory(asked)) {
    const auto newest = newest_of_any(asked.parent_path());
    throw UserError(ExitCode::bad_checkpoint, fmt::format("`resume_from_checkpoint` {}: there is no such folder", asked.string()),
                    newest ? fmt::format("the newest checkpoint there is {}", newest->string())
                           : "name a checkpoint, or the folder of a run that holds some");
  }
  if (weights_alone && !fs::exists(asked / "manifest.json") && holds_final_weights(asked))
    return asked;  // another program's weights
  auto manifest = verify_checkpoint(asked);
  if (manifest) return asked;
  if (auto inside = fs::exists(asked / "manifest.json") ? std::nullopt : newest_of_any(asked)) {
    log::info("`resume_from_checkpoint` {}: its newest checkpoint is {}", asked.string(), inside->string());
    return *inside;
  }
  throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: {}", asked.string(), manifest.error()),
                  holds_final_weights(asked) ? "name an older checkpoint, or take its weights alone with `resume_only_model` true"
                                             : "name a checkpoint, or the folder of a run that holds some");
}

// As in LLaMA-Factory, a folder with checkpoints is resumed by default.
std::optional<fs::path> automatic_checkpoint(const fs::path& output_dir, const RunSubject& subject) {
  auto newest = find_checkpoint(output_dir, subject);
  if (newest) log::info("resuming from {}; start from scratch with `overwrite_output_dir` true", newest->string());
  if (!newest && holds_final_weights(output_dir))
    throw UserError(ExitCode::usage,
                    fmt::format("{} already holds a trained model and no checkpoint to continue from", output_dir.string()),
                    "name another `output_dir`, or write over it with `overwrite_output_dir` true");
  return newest;
}

}  // namespace

void check_output_folder(const fs::path& folder, std::string_view setting) {
  auto refuse = [&](const std::string& why, ExitCode code = ExitCode::usage) {
    throw UserError(
        code, fmt::format("output folder {}: {}", folder.string(), why),
        fmt::format("{}name another one with `{}`", code == ExitCode::out_of_space ? "free some space, or " : "", setting));
  };
  std::error_code status;
  if (fs::exists(folder, status) && !fs::is_directory(folder)) refuse("is a file; expected a folder");
  fs::create_directories(folder, status);
  if (status)
    refuse("cannot be created: " + status.message(),
           status == std::errc::no_space_on_device ? ExitCode::out_of_space : ExitCode::usage);
  fs::path probe = folder / fmt::format(".hone-probe-{}", ::getpid());
  try {
    write_file_atomically(probe, "x");
    fs::remove(probe);
  } catch (const UserError& cause) {
    refuse(fmt::format("cannot be written to ({})", cause.what()),
           cause.code() == ExitCode::out_of_space ? cause.code() : ExitCode::usage);
  }
}

std::optional<fs::path> settled_folder(const TrainerConfig& config) {
  if (config.continue_run) return config.continue_run;
  if (config.layout == Layout::swift && config.add_version) return std::nullopt;
  return fs::absolute(config.output_dir).lexically_normal();
}

void discard_unused(const TrainerConfig& config, const fs::path& run_folder) {
  if (config.layout != Layout::swift || !config.add_version || config.continue_run || run_folder.empty()) return;
  std::error_code ignored;
  bool used = fs::exists(run_folder / "logging.jsonl", ignored);
  for (const auto& entry : fs::directory_iterator(run_folder, ignored))
    used |= entry.path().filename().string().starts_with("checkpoint-");
  if (!used) fs::remove_all(run_folder, ignored);
}

fs::path make_run_folder(const TrainerConfig& config, const RunStart& start) {
  if (start.folder) return *start.folder;
  check_output_folder(config.output_dir);
  auto root = fs::absolute(config.output_dir).lexically_normal();
  // Another run may start in the same second: the folder is ours only if we created it.
  int64_t version = highest_version(root) + 1;
  fs::path made;
  do made = root / fmt::format("v{}-{}", version++, time_stamp());
  while (!fs::create_directory(made));
  return made;
}

RunStart begin_run(const TrainerConfig& config, const RunSubject& subject) {
  RunStart start{.checkpoint = std::nullopt, .run_id = "", .folder = settled_folder(config)};
  auto& from = start.checkpoint;
  if (config.continue_run) from = find_checkpoint(*config.continue_run, subject);
  if (!from && config.resume_from_checkpoint == "true") {
    from = find_checkpoint(config.output_dir, subject);
    if (from && !start.folder) start.folder = fs::absolute(*from).lexically_normal().parent_path();
    if (from)
      log::info("resuming from {}", from->string());
    else
      log::info("{} holds no checkpoint of this run yet: it starts from the beginning", config.output_dir.string());
  } else if (!from && config.resume_from_checkpoint) {
    from = asked_checkpoint(*config.resume_from_checkpoint, config.resume_only_model);
  } else if (!from && config.auto_resume && !config.overwrite_output_dir && fs::is_directory(config.output_dir)) {
    from = automatic_checkpoint(config.output_dir, subject);
  }
  start.run_id = from ? id_to_continue(*from) : fresh_run_id();
  if (!from) return start;
  for (const auto& change : changed_settings(*from, subject.settings)) log::warning("{}: {}", from->string(), change);
  return start;
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
