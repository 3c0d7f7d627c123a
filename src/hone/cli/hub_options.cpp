#include "hone/cli/hub_options.h"

#include <filesystem>

#include "hone/base/file.h"
#include "hone/cli/arguments/hub.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/parsing/checkpoint_args.h"
#include "hone/cli/parsing/config_entries.h"
#include "hone/cli/parsing/environment.h"
#include "hone/hub/locate.h"
#include "hone/hub/nearby.h"
#include "hone/io/newest_checkpoint.h"
#include "hone/io/peft.h"

namespace hone::cli {
namespace {

// LLaMA-Factory's switch applies if neither --use_hf nor USE_HF is set.
hub::Site chosen_site(const Options& options) {
  const auto use_hf = HubArguments(options).use_hf;
  if (!use_hf.exists())
    return environment_flag(system_access(), "USE_HF").value_or(false) ? hub::Site::hugging_face : hub::Site::modelscope;
  bool hugging_face = *use_hf;
  if (!use_hf.is_set() && environment_flag(system_access(), "USE_MODELSCOPE_HUB").value_or(false)) hugging_face = false;
  return hugging_face ? hub::Site::hugging_face : hub::Site::modelscope;
}

// "name=folder" serves the adapter under that name.
std::string found_adapter(const Options& options, const std::string& word, const std::string& subfolder) {
  namespace fs = std::filesystem;
  auto equals = fs::exists(word) ? word.npos : word.find('=');
  auto label = equals == word.npos ? "" : word.substr(0, equals + 1);
  auto name = word.substr(label.size());
  auto folder = fs::exists(name) || !hub::is_repo_id(name.substr(0, name.find(':'))) ? fs::path(name) : hub::locate_adapter(name);
  if (!subfolder.empty()) folder /= subfolder;
  require_adapter_folder(options, folder.string());
  return label + folder.string();
}

// Called once at the start of a command.
void configure_hub(const Options& options) {
  const HubArguments args(options);
  hub::configure({.site = chosen_site(options),
                  .token = args.hub_token.value_or(""),
                  .cache = args.cache_dir.value_or(""),
                  .refresh = args.download_mode.value_or("") == "force_redownload",
                  .user = hub::user_settings(system_access().environment)});
}

// --ckpt_dir is equivalent to --adapters or --model, depending on the contents of the folder.
void find_checkpoint(Options& options) {
  const ModelArguments args(options);
  if (!args.ckpt_dir.has_value()) return;
  auto folder = *args.ckpt_dir;
  bool adapter = io::adapter_files_in(folder).has_value();
  const auto source = args.ckpt_dir.source();
  const auto where = args.ckpt_dir.where();
  if (adapter)
    options.set(args.adapters.name(), Json::array({folder}), source, where);
  else
    options.set(args.model.name(), folder, source, where);
}

// Replaces adapters given as hub ids by their local folders, so that their args.json can be read.
void find_adapters(Options& options) {
  const auto adapters = ModelArguments(options).adapters;
  if (!adapters.has_value()) return;
  auto subfolder = HubArguments(options).adapter_folder.value_or("");
  Json folders = Json::array();
  for (const auto& word : *adapters) folders.push_back(found_adapter(options, word, subfolder));
  const auto where = adapters.where();
  options.set(adapters.name(), folders, adapters.source(), where);
}

// Without --model, the first adapter's base model is used. An export that merges looks it up itself; one that only pushes an
// adapter needs no base model.
void find_base(Options& options) {
  const ModelArguments args(options);
  if (options.verb() & kExport || !args.adapters.has_value() || args.model.has_value()) return;
  auto adapter = args.adapters->front();
  if (auto equals = adapter.find('='); equals != adapter.npos && !std::filesystem::exists(adapter))
    adapter = adapter.substr(equals + 1);
  auto files = io::adapter_files_in(adapter);
  if (!files) return;  // opening it reports missing files
  options.set(args.model.name(), base_of_adapter(adapter), Source::checkpoint, (*files / "adapter_config.json").string());
}

bool holds_model(const fs::path& folder) { return fs::is_regular_file(folder / "config.json"); }

// "--adapters output/run/checkpoint-8": the option that a checkpoint folder belongs to.
std::string as_option(const Options& options, const fs::path& checkpoint) {
  const ModelArguments args(options);
  return fmt::format("{} {}", io::adapter_files_in(checkpoint) ? args.adapters.flag() : args.model.flag(), checkpoint.string());
}

}  // namespace

std::filesystem::path model_folder(const Options& options) {
  return hub::locate_model(ModelArguments(options).model.required(), *HubArguments(options).model_revision);
}

std::string base_of_adapter(const std::string& adapter) {
  auto base = io::read_adapter_config(adapter).base_model;
  if (!base.empty() && (std::filesystem::exists(std::filesystem::path(base) / "config.json") || hub::is_repo_id(base)))
    return base;
  throw UserError(ExitCode::usage, fmt::format("the adapter's base model \"{}\" is not a folder here", base),
                  "pass --model <folder>");
}

void resolve_folders(Options& options, bool check) {
  configure_hub(options);
  find_checkpoint(options);
  if (check) find_adapters(options), require_model_folder(Options(options));
  load_checkpoint_args(options);
  find_base(options);
}

void require_adapter_folder(const Options& options, const std::string& folder) {
  const ModelArguments args(options);
  const auto option = args.adapters.flag();
  if (!fs::exists(folder)) {
    auto newest = io::newest_checkpoint_in(fs::path(folder).parent_path());
    auto otherwise = newest ? fmt::format("the newest checkpoint there is {}", newest->string())
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
