#include "hone/cli/commands/export.h"

#include <fmt/ranges.h>

#include "hone/base/error.h"
#include "hone/base/progress.h"
#include "hone/base/strings/counted.h"
#include "hone/base/strings/shell_quoted.h"
#include "hone/io/peft.h"
#include "hone/tuner/merge.h"
#include "hone/tuner/model_folder.h"

namespace hone::cli {
namespace {

namespace fs = std::filesystem;

fs::path without_trailing_slash(fs::path path) {
  path = path.lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

fs::path export_model(const ExportOptions& options) {
  bool merges = !options.adapters.empty();
  if (merges && !options.merge_lora)
    throw UserError(ExitCode::usage, "adapters are given, but not merged", "pass --merge_lora true");
  if (!merges && options.merge_lora && options.output_dir.empty())
    throw UserError(ExitCode::usage, "there is no adapter to merge", "pass --adapters <checkpoint>");
  if (!merges && options.output_dir.empty())
    throw UserError(ExitCode::usage, "there is nothing to export: no adapter to merge and no folder to write to",
                    "pass --adapters <checkpoint> --merge_lora true, or --output_dir to write the model again");
  if (options.model.empty()) throw UserError(ExitCode::usage, "there is no model to write again", "pass --model <folder>");
  const fs::path& base = options.model;
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
    fmt::print("rewrote {}: {}, {}\n", base.string(), counted(report.tensors, "tensor"),
               format_bytes(static_cast<double>(report.bytes)));
  fmt::print("written to {}\nnext: {} {}\n", output.string(), options.next, shell_quoted(output.string()));
  if (options.for_ollama) fmt::print("      ollama create my-model -f {}\n", shell_quoted((output / "Modelfile").string()));
  return output;
}

fs::path export_adapter(const ExportOptions& options) {
  if (options.adapters.size() != 1)
    throw UserError(ExitCode::usage, fmt::format("{} adapters are given to write in PEFT's format", options.adapters.size()),
                    "name one with --adapters <checkpoint>");
  const auto& adapter = options.adapters.front();
  const fs::path output =
      options.output_dir.empty() ? fs::path(without_trailing_slash(adapter).string() + "-peft") : options.output_dir;
  if (fs::exists(output) && !fs::is_empty(output) && !options.exist_ok)
    throw UserError(ExitCode::usage, fmt::format("{} exists already", output.string()),
                    "choose another --output_dir, or pass --exist_ok true");
  const auto read = io::read_adapter(adapter);
  tuner::Staging staging(output);
  io::write_adapter(staging.folder(), read);
  tuner::copy_small_files(adapter, staging.folder(), &tuner::files_beside_adapter());
  staging.publish();
  fmt::print("wrote {}: {}\nwritten to {}\n", adapter.string(), counted(read.tensors.size(), "tensor"), output.string());
  return output;
}

}  // namespace hone::cli
