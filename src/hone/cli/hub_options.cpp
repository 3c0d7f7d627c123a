#include "hone/cli/hub_options.h"

#include <cstdlib>
#include <filesystem>

#include "hone/cli/folder_checks.h"
#include "hone/cli/parsing/parse.h"
#include "hone/hub/locate.h"
#include "hone/io/peft.h"

namespace hone::cli {
namespace {

bool is_on(const char* variable) {
  const char* value = std::getenv(variable);
  if (!value) return false;
  std::string text = value;
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text == "1" || text == "true" || text == "yes" || text == "y" || text == "on";
}

// LLaMA-Factory's switch counts where --use_hf or USE_HF says nothing.
hub::Site chosen_site(const Options& options) {
  if (!options.has_option("use_hf")) return is_on("USE_HF") ? hub::Site::hugging_face : hub::Site::modelscope;
  bool hugging_face = options.flag("use_hf");
  if (!options.is_set("use_hf") && is_on("USE_MODELSCOPE_HUB")) hugging_face = false;
  return hugging_face ? hub::Site::hugging_face : hub::Site::modelscope;
}

std::string text_or_none(const Options& options, std::string_view name) {
  return options.has_option(name) && options.has(name) ? options.text(name) : "";
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

}  // namespace

void configure_hub(const Options& options) {
  hub::configure({.site = chosen_site(options),
                  .token = text_or_none(options, "hub_token"),
                  .cache = text_or_none(options, "cache_dir"),
                  .refresh = text_or_none(options, "download_mode") == "force_redownload",
                  .user = hub::user_settings(system_access().environment)});
}

void find_checkpoint(Options& options) {
  if (!options.has_option("ckpt_dir") || !options.has("ckpt_dir")) return;
  auto folder = options.text("ckpt_dir");
  bool adapter = io::adapter_files_in(folder).has_value();
  const auto& given = options.setting("ckpt_dir");
  if (adapter)
    options.set("adapters", Json::array({folder}), given.source, given.where);
  else
    options.set("model", folder, given.source, given.where);
}

void find_adapters(Options& options) {
  if (!options.has_option("adapters") || !options.has("adapters")) return;
  auto subfolder = text_or_none(options, "adapter_folder");
  Json folders = Json::array();
  for (const auto& word : options.list("adapters")) folders.push_back(found_adapter(options, word, subfolder));
  auto before = options.setting("adapters");
  options.set("adapters", folders, before.source, before.where);
}

std::string base_of_adapter(const std::string& adapter) {
  auto base = io::read_adapter_config(adapter).base_model;
  if (!base.empty() && (std::filesystem::exists(std::filesystem::path(base) / "config.json") || hub::is_repo_id(base)))
    return base;
  throw UserError(ExitCode::usage, fmt::format("the adapter's base model \"{}\" is not a folder here", base),
                  "pass --model <folder>");
}

void find_base(Options& options) {
  if (options.verb() & kExport || !options.has_option("adapters") || !options.has("adapters") || options.has("model")) return;
  auto adapter = options.list("adapters").front();
  if (auto equals = adapter.find('='); equals != adapter.npos && !std::filesystem::exists(adapter))
    adapter = adapter.substr(equals + 1);
  auto files = io::adapter_files_in(adapter);
  if (!files) return;  // who opens it says what is missing
  options.set("model", base_of_adapter(adapter), Source::checkpoint, (*files / "adapter_config.json").string());
}

}  // namespace hone::cli
