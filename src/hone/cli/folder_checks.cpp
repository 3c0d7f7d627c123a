#include "hone/cli/folder_checks.h"

#include "hone/base/file.h"
#include "hone/cli/arguments/model.h"
#include "hone/hub/nearby.h"
#include "hone/io/newest_checkpoint.h"
#include "hone/io/peft.h"

namespace hone::cli {
namespace {

bool holds_model(const fs::path& folder) { return fs::is_regular_file(folder / "config.json"); }

// "--adapters output/run/checkpoint-8": the option that a checkpoint folder belongs to.
std::string as_option(const Options& options, const fs::path& checkpoint) {
  const ModelArguments args(options);
  return fmt::format("{} {}", io::adapter_files_in(checkpoint) ? args.adapters.flag() : args.model.flag(), checkpoint.string());
}

}  // namespace

void require_adapter_folder(const Options& options, const std::string& folder) {
  const ModelArguments args(options);
  const auto option = args.adapters.flag();
  if (!fs::exists(folder)) {
    auto beside = io::newest_checkpoint_in(fs::path(folder).parent_path());
    auto otherwise = beside ? fmt::format("the newest checkpoint there is {}", beside->string())
                            : "pass a folder with adapter_config.json, or a hub's owner/name";
    throw UserError(ExitCode::usage, fmt::format("{} {}: there is no such folder", option, folder),
                    hub::spelling_hint(folder, otherwise));
  }
  if (io::adapter_files_in(folder)) return;
  if (holds_model(folder))
    throw UserError(ExitCode::usage, fmt::format("{} {} holds a model, not an adapter", option, folder),
                    fmt::format("pass it as {} {}", args.model.flag(), folder));
  io::read_adapter_config(folder);  // the error states what the folder contains
}

void require_model_folder(const Options& options) {
  const ModelArguments args(options);
  if (!(options.verb() & kModelUsers) || !args.model.exists() || !args.adapters.exists() || !args.model.has_value()) return;
  const auto folder = *args.model, option = args.model.flag();
  if (!fs::is_directory(folder) || holds_model(folder)) return;
  if (io::adapter_files_in(folder)) {
    auto base = io::read_adapter_config(folder).base_model;
    throw UserError(ExitCode::usage, fmt::format("{} {} holds an adapter, not a model", option, folder),
                    fmt::format("pass it as {} {}{}", args.adapters.flag(), folder,
                                base.empty() ? "" : fmt::format("; its base model is {}", base)));
  }
  if (auto newest = io::newest_checkpoint_in(folder))
    throw UserError(ExitCode::usage, fmt::format("{} {} is a run; expected one of its checkpoints", option, folder),
                    fmt::format("the newest is {}", as_option(options, *newest)));
}

}  // namespace hone::cli
