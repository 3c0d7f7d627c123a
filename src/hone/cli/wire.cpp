// From Options to the plain settings of the commands that know nothing of the options table.
#include "hone/cli/commands.h"
#include "hone/cli/commands/export.h"
#include "hone/cli/commands/logits.h"
#include "hone/cli/commands/optim_trace.h"
#include "hone/cli/commands/preview.h"
#include "hone/cli/commands/render.h"
#include "hone/cli/commands/tokenize.h"
#include "hone/cli/jobs/data_job.h"
#include "hone/cli/jobs/tuning_job.h"
#include "hone/hub/locate.h"

namespace hone::cli {
namespace {

std::string first_word(const Options& options) { return options.words().empty() ? "" : options.words()[0]; }

std::string model_folder(const Options& options) {
  return hub::locate_model(options.required("model"), options.text("model_revision")).string();
}

int merge(const Options& options, bool merge_lora) {
  ExportOptions merged{
      .merge_lora = merge_lora, .torch_dtype = dtype_option(options, "torch_dtype"), .exist_ok = options.flag("exist_ok")};
  if (options.has("model")) merged.model = hub::locate_model(options.text("model"), options.text("model_revision"));
  for (const auto& adapter : options.list("adapters")) merged.adapters.emplace_back(adapter);
  if (options.has("output_dir")) merged.output_dir = options.text("output_dir");
  merged.max_shard_bytes = static_cast<size_t>(options.integer("max_shard_size"));
  bool factory = options.front_end() == FrontEnd::factory;
  merged.next = fmt::format("{} {}", program_name(options.front_end()), factory ? "chat --model_name_or_path" : "infer --model");
  return export_command(merged);
}

}  // namespace

int tokenize_command(const Options& options) {
  return tokenize_command(TokenizeOptions{.model = model_folder(options),
                                          .decode = options.flag("decode"),
                                          .lines = options.flag("lines"),
                                          .format = options.text("format"),
                                          .special_tokens = options.flag("special_tokens"),
                                          .file = first_word(options)});
}

int render_command(const Options& options) {
  bool by_file = options.has("template");
  return render_command(RenderOptions{.model = options.has("model") ? model_folder(options) : std::string(),
                                      .template_file = by_file ? options.text("template") : std::string(),
                                      .add_generation_prompt = options.flag("add_generation_prompt"),
                                      .vars = options.text("vars"),
                                      .file = first_word(options),
                                      .format = options.text("format")});
}

int preview_command(const Options& options) {
  return preview_command(PreviewOptions{.model = model_folder(options),
                                        .dataset = dataset_config(options),
                                        .encode = encode_config(options, 0),
                                        .rows = options.integer("rows"),
                                        .scan = options.integer("scan"),
                                        .ids = options.flag("ids"),
                                        .format = options.text("format")});
}

int export_command(const Options& options) {
  // LLaMA-Factory's export always merges what it is given.
  return merge(options, speaks_factory(options) || options.flag("merge_lora"));
}

int merge_lora_command(const Options& options) { return merge(options, true); }

int logits_command(const Options& options) {
  return logits_command(LogitsOptions{.model = model_folder(options),
                                      .adapters = options.list("adapters"),
                                      .new_adapter = options.text("new_adapter"),
                                      .save_adapter = options.text("save_adapter"),
                                      .input = options.required("input"),
                                      .output = options.required("output"),
                                      .dtype = options.has("torch_dtype") ? options.text("torch_dtype") : std::string(),
                                      .device = options.has("devices") ? options.text("devices") : "cpu",
                                      .grads = options.flag("grads"),
                                      .recompute = options.flag("recompute"),
                                      .cached = options.flag("cached")});
}

int optim_trace_command(const Options& options) {
  return optim_trace_command(OptimTraceOptions{.optim = options.text("optim"),
                                               .config = options.text("config"),
                                               .input = options.text("input"),
                                               .output = options.text("output")});
}

}  // namespace hone::cli
