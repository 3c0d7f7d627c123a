// `megatron export`: models and adapters already have Hugging Face's format, so it merges an adapter or writes a folder again.
#include <algorithm>

#include "hone/base/error.h"
#include "hone/cli/megatron/given_options.h"
#include "hone/cli/megatron/megatron.h"

namespace hone::cli {
namespace {

class ExportLine {
 public:
  explicit ExportLine(std::vector<GivenOption> given) : given_(std::move(given)) {}

  std::vector<std::string> words() {
    line_ = {"export"};
    for (const char* name : {"model", "mcore_model", "load"}) add_folder(name, FolderKind::model, "model");
    for (const char* name : {"adapters", "mcore_adapter", "adapter_load"}) add_folder(name, FolderKind::adapter, "adapters");
    if (model_.empty() && adapter_.empty())
      throw UserError(ExitCode::usage, "megatron export has nothing to write", "name a model with --model, or --adapters");
    if (is_on("to_mcore"))
      warn_once(
          "--to_mcore: the folder has the hub's format, which megatron of hone takes as --mcore_model and --mcore_adapter; for "
          "Megatron-LM itself, convert with ms-swift's megatron export");
    add_action();
    for (const auto& option : given_) carry(option);
    return line_;
  }

 private:
  const GivenOption* find(std::string_view name) const {
    const auto found = std::ranges::find(given_, name, &GivenOption::name);
    return found == given_.end() ? nullptr : &*found;
  }
  bool is_on(std::string_view name) const {
    const auto* option = find(name);
    return option && !option->is_off();
  }
  void add(const std::string& name, const std::string& value) { line_.insert(line_.end(), {"--" + name, value}); }

  // A hub id is accepted as it is; a folder must contain the required files.
  void add_folder(const char* name, FolderKind kind, const char* becomes) {
    const auto* option = find(name);
    if (!option) return;
    const fs::path folder = option->value();
    if (std::string_view(name) != becomes && kind_of_folder(folder) != kind)
      throw UserError(ExitCode::usage, fmt::format("--{} {}: {}", name, folder.string(), kMcoreUnread));
    (kind == FolderKind::adapter ? adapter_ : model_) = folder.string();
    add(becomes, folder.string());
  }

  // ms-swift merges where it writes the hub's files, unless an option says otherwise.
  void add_action() {
    const bool merges = find("merge_lora") ? is_on("merge_lora") : is_on("to_hf");
    if (!adapter_.empty()) add(merges ? "merge_lora" : "to_peft_format", "true");
    if (is_on("fp8_format")) add("quant_method", "fp8");
    if (find("output_dir") || find("save")) return;
    if (adapter_.empty()) add("output_dir", fs::path(model_).filename().string() + (is_on("to_mcore") ? "-mcore" : "-hf"));
  }

  // Parallel sizes only affect a conversion, which hone does not need.
  void carry(const GivenOption& option) {
    static constexpr std::string_view kDone[] = {"model",         "mcore_model",  "load",       "adapters",
                                                 "mcore_adapter", "adapter_load", "merge_lora", "to_mcore",
                                                 "to_hf",         "fp8_format",   "fp8_recipe"};
    static constexpr std::string_view kKept[] = {"torch_dtype", "exist_ok",           "max_shard_size", "use_hf",    "hub_token",
                                                 "model_type",  "safe_serialization", "log_level",      "log_format"};
    if (std::ranges::count(kDone, option.name)) return;
    if (option.name == "save" || option.name == "output_dir" || std::ranges::count(kKept, option.name)) {
      line_.push_back("--" + (option.name == "save" ? "output_dir" : option.name));
      line_.insert(line_.end(), option.values.begin(), option.values.end());
    } else {
      warn_once(fmt::format("--{} has no effect: one process writes the folder, without another format in between", option.name));
    }
  }

  std::vector<GivenOption> given_;
  std::vector<std::string> line_;
  std::string model_, adapter_;
};

}  // namespace

std::vector<std::string> megatron_export_line(const std::vector<std::string>& words) {
  return ExportLine(read_given(words)).words();
}

}  // namespace hone::cli
