#include "hone/cli/commands/export.h"

#include <fmt/ranges.h>

#include "hone/base/error.h"
#include "hone/base/progress.h"
#include "hone/hub/locate.h"
#include "hone/io/peft.h"
#include "hone/tuner/merge.h"

namespace hone::cli {
namespace {

namespace fs = std::filesystem;

fs::path without_trailing_slash(fs::path path) {
  path = path.lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

fs::path base_of(const ExportOptions& options) {
  if (!options.model.empty()) return options.model;
  const auto config = io::read_adapter_config(options.adapters.front());
  if (!config.base_model.empty() && fs::exists(fs::path(config.base_model) / "config.json")) return config.base_model;
  if (hub::is_repo_id(config.base_model)) return hub::locate_model(config.base_model);
  throw UserError(ExitCode::usage, fmt::format("the adapter's base model \"{}\" is not a folder here", config.base_model),
                  "pass --model <folder>");
}

}  // namespace

fs::path export_model(const ExportOptions& options) {
  bool merges = !options.adapters.empty();
  if (merges && !options.merge_lora)
    throw UserError(ExitCode::usage, "adapters are given, yet not to be merged", "pass --merge_lora true");
  if (!merges && options.output_dir.empty())
    throw UserError(ExitCode::usage, "there is nothing to export: no adapter to merge and no folder to write to",
                    "pass --adapters <checkpoint> --merge_lora true, or --output_dir to write the model anew");
  const fs::path base = base_of(options);
  const fs::path output = options.output_dir.empty()
                              ? fs::path(without_trailing_slash(options.adapters.back()).string() + "-merged")
                              : options.output_dir;
  const auto report =
      tuner::merge_adapters(base, options.adapters, output, 
                            {options.torch_dtype, options.max_shard_bytes, options.exist_ok, options.changes, options.finish});
  std::vector<std::string> names;
  for (const auto& adapter : options.adapters) names.push_back(adapter.string());
  if (merges)
    fmt::print("merged {} into {}: {} of {} tensors changed, {}\n", fmt::join(names, ", "), base.string(), report.changed,
               report.tensors, format_bytes(static_cast<double>(report.bytes)));
  else
    fmt::print("rewrote {}: {} tensors, {}\n", base.string(), report.tensors, format_bytes(static_cast<double>(report.bytes)));
  fmt::print("written to {}\nnext: {} {}\n", output.string(), options.next, output.string());
  return output;
}

}  // namespace hone::cli
