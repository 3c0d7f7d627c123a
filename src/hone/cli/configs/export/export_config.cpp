#include "hone/cli/configs/export/export_config.h"

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/usable_cores.h"
#include "hone/cli/commands.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/export/ollama.h"
#include "hone/cli/configs/export/quantize_config.h"
#include "hone/cli/configs/hub_config.h"
#include "hone/cli/configs/model_config.h"
#include "hone/cli/configs/training/task_config.h"
#include "hone/cli/configs/training/tuning_config.h"
#include "hone/cli/hub_options.h"
#include "hone/data/datasets/cached_dataset.h"
#include "hone/data/datasets/open_datasets.h"
#include "hone/hub/locate.h"
#include "hone/hub/upload.h"
#include "hone/train/checkpoints/checkpoint_assets.h"

namespace hone::cli {
namespace {

constexpr int64_t kFactoryContext = 4096;  // what LLaMA-Factory writes

std::string modelfile_of(const Options& options, const fs::path& folder, const std::string& from) {
  auto tokenizer = text::Tokenizer::load(folder);
  auto encoder = data::Encoder::make(encode_config(options, 0), tokenizer, data::read_model_identity(folder));
  return ollama_modelfile(
      *encoder, *tokenizer,
      {from, options.has("system") ? options.text("system") : "", uses_factory_dialect(options) ? kFactoryContext : 0});
}

bool to_ollama(const Options& options) { return options.has_option("to_ollama") && options.flag("to_ollama"); }

// LLaMA-Factory writes one unasked; a template that has none is then no reason to fail.
void write_modelfile(const Options& options, const fs::path& folder) {
  try {
    write_file_atomically(folder / "Modelfile", modelfile_of(options, folder, "."));
  } catch (const UserError& problem) {
    if (to_ollama(options)) throw;
    log::warning("no Modelfile: {}", problem.what());
  }
}

// Tokens that a run added stand in its args.json: the base has neither their rows nor their names.
void add_tokens(const Options& options, ExportOptions& job) {
  auto tokens = new_tokens(options);
  if (tokens.empty()) return;
  std::shared_ptr<const text::Tokenizer> tokenizer = text::load_tokenizer(job.model, tokens);
  job.changes.vocabulary = room_for(*tokenizer, options);
  job.finish = [model = job.model, tokens, tokenizer](const fs::path& folder) {
    text::write_extended_files(model, folder, tokens, *tokenizer);
  };
}

// The folder that is written may be called anything, so its args.json names the template that the model's own name chose.
void keep_template(const Options& options, const fs::path& model, const fs::path& folder) {
  auto path = folder / "args.json";
  auto args = fs::exists(path) ? read_config_file(path.string()) : Json{{"model", model.string()}};
  auto name = resolved_template(options, model);
  args["template"] = name.empty() ? Json() : Json(name);
  train::write_args(folder, std::move(args));
}

// Rows as token ids: train and val, for --cached_dataset.
void write_cached_dataset(const Options& options) {
  auto model = hub::locate_model(options.required("model"), options.text("model_revision"));
  auto tokenizer = text::load_tokenizer(model, new_tokens(options));
  auto encoder = data::Encoder::make(
      encode_config(options, model::read_config(model, config_changes(options, model)).max_position_embeddings), tokenizer,
      data::read_model_identity(model));
  const auto mode = options.text("template_mode");
  const auto purpose = mode == "rlhf"  ? data::TemplateMode::rlhf
                       : mode == "kto" ? data::TemplateMode::kto
                                       : data::TemplateMode::train;
  auto opened = data::open_datasets(dataset_config(options));
  fs::path folder = options.has("output_dir") ? fs::path(options.text("output_dir"))
                                              : fs::path(model.lexically_normal().string() + "-cached_dataset");
  if (fs::exists(folder) && !fs::is_empty(folder) && !options.flag("exist_ok"))
    throw UserError(ExitCode::usage, fmt::format("{} exists already", folder.string()),
                    "choose another --output_dir, or pass --exist_ok true");
  ThreadPool pool(static_cast<size_t>(options.is_set("dataset_num_proc") ? options.integer("dataset_num_proc") : usable_cores()));
  data::RowReport report(options.flag("strict"));
  if (!opened.train && !opened.validation)
    throw UserError(ExitCode::usage, "there are no rows to write", "name them with --dataset");
  if (opened.train) data::write_cached_dataset(folder / "train", *opened.train, *encoder, report, pool, purpose);
  if (opened.validation) data::write_cached_dataset(folder / "val", *opened.validation, *encoder, report, pool, purpose);
  report.log_summary();
  if (purpose != data::TemplateMode::train) {
    fmt::print("written to {}\n", folder.string());
    return;
  }
  fmt::print("written to {0}\nnext: {1} sft --model {2} --cached_dataset {0}/train{3}\n", folder.string(),
             program_name(options.front_end()), options.text("model"),
             opened.validation ? fmt::format(" --cached_val_dataset {}/val", folder.string()) : "");
}

int run_export(const Options& options, bool merge_lora) {
  if (options.has_option("to_cached_dataset") && options.flag("to_cached_dataset")) {
    write_cached_dataset(options);
    return 0;
  }
  reject_quantized_base(options);
  auto job = export_options(options, merge_lora);
  if (quantizes(options)) {
    if (pushes_export(options)) hub::require_upload(hub::config().site);
    auto written = export_quantized(options, job);
    if (!uses_factory_dialect(options)) keep_template(options, job.model, written);
    if (pushes_export(options)) push_folder(options, written);
    return 0;
  }
  bool pushes = pushes_export(options), nothing_to_write = job.output_dir.empty() && (job.adapters.empty() || !merge_lora);
  if (pushes) hub::require_upload(hub::config().site);
  if (pushes && nothing_to_write) {  // what is there is sent as it is: an adapter, or a model
    push_folder(options, job.adapters.empty() ? job.model : job.adapters.back());
    return 0;
  }
  bool only_modelfile = to_ollama(options) && job.adapters.empty() && options.has("model");
  if (!only_modelfile) {
    auto written = export_model(job);
    if (pushes) push_folder(options, written);
    return 0;
  }
  fs::path folder = job.output_dir.empty() ? fs::path(job.model.lexically_normal().string() + "-ollama") : job.output_dir;
  fs::create_directories(folder);
  write_file_atomically(folder / "Modelfile", modelfile_of(options, job.model, fs::absolute(job.model).string()));
  fmt::print("written to {}\nnext: ollama create my-model -f {}\n", folder.string(), (folder / "Modelfile").string());
  return 0;
}

}  // namespace

ExportOptions export_options(const Options& options, bool merge_lora) {
  ExportOptions job{
      .merge_lora = merge_lora, .torch_dtype = dtype_option(options, "torch_dtype"), .exist_ok = options.flag("exist_ok")};
  for (const auto& adapter : options.list("adapters")) job.adapters.emplace_back(adapter);
  auto model = options.has("model") ? options.text("model") : "";
  if (model.empty() && merge_lora && !job.adapters.empty()) model = base_of_adapter(job.adapters.front().string());
  if (!model.empty()) {
    job.model = hub::locate_model(model, options.text("model_revision"));
    job.changes.config = config_changes(options, job.model);
    job.changes.config.update(task_changes(options, job.model));
    add_tokens(options, job);
  }
  if (options.has("output_dir")) job.output_dir = options.text("output_dir");
  job.max_shard_bytes = static_cast<size_t>(options.integer("max_shard_size"));
  if (!uses_factory_dialect(options))
    job.finish = [&options, model = job.model, before = job.finish](const fs::path& folder) {
      if (before) before(folder);
      keep_template(options, model, folder);
    };
  job.for_ollama = to_ollama(options);
  if (to_ollama(options) || uses_factory_dialect(options))
    job.finish = [&options, before = job.finish](const fs::path& folder) {
      if (before) before(folder);
      write_modelfile(options, folder);
    };
  bool factory = options.front_end() == FrontEnd::factory;
  job.next = fmt::format("{} {}", program_name(options.front_end()), factory ? "chat --model_name_or_path" : "infer --model");
  return job;
}

// LLaMA-Factory's export always merges what it is given.
int export_command(const Options& options) {
  return run_export(options, uses_factory_dialect(options) || options.flag("merge_lora"));
}

int merge_lora_command(const Options& options) { return run_export(options, true); }

}  // namespace hone::cli
