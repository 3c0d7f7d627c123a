// `megatron export`: checkpoints already have Hugging Face's format, so an adapter is merged or nothing is left to do.
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
    if (const auto* option = find("to_mcore"); option && !option->is_off())
      throw UserError(
          ExitCode::usage, "--to_mcore true: hone trains from the hub's files and writes nothing else",
          "start from the folder itself, megatron sft --model …; ms-swift's megatron export makes checkpoints of mcore");
    line_ = {"export"};
    for (const char* name : {"model", "mcore_model", "load"}) add_folder(name, FolderKind::model, "model");
    for (const char* name : {"adapters", "mcore_adapter", "adapter_load"}) add_folder(name, FolderKind::adapter, "adapters");
    require_work();
    line_.insert(line_.end(), {"--merge_lora", "true"});
    for (const auto& option : given_) carry(option);
    return line_;
  }

 private:
  const GivenOption* find(std::string_view name) const {
    const auto found = std::ranges::find(given_, name, &GivenOption::name);
    return found == given_.end() ? nullptr : &*found;
  }

  // A hub id is accepted as it is; a folder must contain the required files.
  void add_folder(const char* name, FolderKind kind, const char* becomes) {
    const auto* option = find(name);
    if (!option) return;
    const fs::path folder = option->value();
    if (std::string_view(name) != becomes && kind_of_folder(folder) != kind)
      throw UserError(ExitCode::usage, fmt::format("--{} {}: {}", name, folder.string(), kMcoreUnread));
    if (kind == FolderKind::adapter) has_adapter_ = true;
    line_.insert(line_.end(), {fmt::format("--{}", becomes), folder.string()});
  }

  void require_work() const {
    const auto* merge = find("merge_lora");
    if (has_adapter_ && !(merge && merge->is_off())) return;
    throw UserError(
        ExitCode::usage,
        has_adapter_ ? "--merge_lora false: the adapter is in PEFT's format already, as it was written"
                     : "megatron export has nothing to do: checkpoints are the hub's files already",
        has_adapter_ ? "use it as it is, or merge it with --merge_lora true" : "name an adapter to merge with --adapters …");
  }

  // Parallel sizes only affect a conversion, which hone does not need.
  void carry(const GivenOption& option) {
    static constexpr std::string_view kDone[] = {"model",        "mcore_model", "load",     "adapters", "mcore_adapter",
                                                 "adapter_load", "merge_lora",  "to_mcore", "to_hf"};
    static constexpr std::string_view kKept[] = {"torch_dtype", "exist_ok",   "max_shard_size",    "use_hf",
                                                 "hub_token",   "model_type", "safe_serialization"};
    if (std::ranges::count(kDone, option.name)) return;
    if (option.name == "save" || option.name == "output_dir" || std::ranges::count(kKept, option.name)) {
      line_.push_back("--" + (option.name == "save" ? "output_dir" : option.name));
      line_.insert(line_.end(), option.values.begin(), option.values.end());
    } else {
      warn_once(
          fmt::format("--{} has no effect: an adapter is merged by one process, without another format in between", option.name));
    }
  }

  std::vector<GivenOption> given_;
  std::vector<std::string> line_;
  bool has_adapter_ = false;
};

}  // namespace

std::vector<std::string> megatron_export_line(const std::vector<std::string>& words) {
  return ExportLine(read_given(words)).words();
}

}  // namespace hone::cli
