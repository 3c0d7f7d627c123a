// export and merge-lora: the merged model, with Ollama's Modelfile and files of an extended vocabulary if needed.
#include <string>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/strings/shell_quoted.h"
#include "hone/base/usable_cores.h"
#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/hub.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/output.h"
#include "hone/cli/commands.h"
#include "hone/cli/commands/export.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/export/quantize_config.h"
#include "hone/cli/configs/hub_config.h"
#include "hone/cli/configs/inference/generation_config.h"
#include "hone/cli/configs/model_config.h"
#include "hone/cli/configs/rope_scaling.h"
#include "hone/cli/configs/training/task_config.h"
#include "hone/cli/configs/training/tuning_config.h"
#include "hone/cli/hub_options.h"
#include "hone/data/datasets/cached_dataset.h"
#include "hone/data/datasets/open_datasets.h"
#include "hone/data/encode/encoder.h"
#include "hone/hub/locate.h"
#include "hone/hub/upload.h"
#include "hone/train/checkpoints/checkpoint_assets.h"
#include "hone/train/run_folder.h"

namespace hone::cli {
namespace {

struct ModelfileSettings {
  std::string from = ".";  // the folder with weights
  std::string system;      // "" leaves it to the template
  int64_t context = 0;     // num_ctx; 0 leaves it out
};

constexpr const char* kGoSystem = "{{ .System }}";
constexpr const char* kGoPrompt = "{{ .Prompt }}";

std::string prompt_text_of(const data::Encoder& encoder, const text::Tokenizer& tokenizer, bool with_system) {
  data::Conversation conversation;
  if (with_system) conversation.messages.push_back({.role = "system", .content = kGoSystem});
  conversation.messages.push_back({.role = "user", .content = kGoPrompt});
  auto ids = encoder.encode_prompt(conversation).or_throw(ExitCode::usage, "the chat template");
  // Ollama adds the BOS token itself.
  if (auto bos = tokenizer.special().bos; bos && !ids.empty() && ids.front() == *bos) ids.erase(ids.begin());
  return tokenizer.decode(ids);
}

size_t common_end(std::string_view a, std::string_view b) {
  size_t length = 0;
  while (length < std::min(a.size(), b.size()) && a[a.size() - 1 - length] == b[b.size() - 1 - length]) ++length;
  return length;
}

// Throws UserError(usage) for a template that cannot render a system prompt and a user message as text.
std::string ollama_modelfile(const data::Encoder& encoder, const text::Tokenizer& tokenizer, const ModelfileSettings& settings) {
  auto with = prompt_text_of(encoder, tokenizer, true), without = prompt_text_of(encoder, tokenizer, false);
  auto shared = common_end(with, without);
  auto turn = with.substr(with.size() - shared);
  if (with.find(kGoSystem) == std::string::npos || turn.find(kGoPrompt) == std::string::npos)
    throw UserError(ExitCode::usage, fmt::format("template {} cannot be written for Ollama: it changes the texts it is given",
                                                 encoder.template_name()));
  auto stops = encoder.stop_words();
  std::string ending = stops.empty() ? "" : stops.front();
  auto otherwise = without.substr(0, without.size() - shared);  // the template's default system prompt
  if (!otherwise.empty()) otherwise = "{{ else }}" + otherwise;
  std::string file = fmt::format("FROM {}\nTEMPLATE \"\"\"{{{{ if .System }}}}{}{}{{{{ end }}}}{}{{{{ .Response }}}}{}\"\"\"\n",
                                 settings.from, with.substr(0, with.size() - shared), otherwise, turn, ending);
  if (!settings.system.empty()) file += fmt::format("SYSTEM \"\"\"{}\"\"\"\n", settings.system);
  for (const auto& stop : stops) file += fmt::format("PARAMETER stop {}\n", Json(stop).dump());
  if (settings.context > 0) file += fmt::format("PARAMETER num_ctx {}\n", settings.context);
  return file;
}

constexpr int64_t kFactoryContext = 4096;  // LLaMA-Factory's default

// The Modelfile with which Ollama imports the exported model.
struct ModelfileConfig {
  data::EncodeConfig encode;
  std::string system;
  int64_t context = 0;
  bool required = false;  // LLaMA-Factory writes one by default; a template without an Ollama form is then not an error
};

ModelfileConfig modelfile_config(const Options& options) {
  return {.encode = encode_config(options, 0),
          .system = TemplateArguments(options).system.value_or(""),
          .context = uses_factory_dialect(options) ? kFactoryContext : 0,
          .required = *ExportArguments(options).to_ollama};
}

std::string modelfile_of(const ModelfileConfig& config, const fs::path& folder, const std::string& from) {
  auto tokenizer = text::Tokenizer::load(folder);
  auto encoder = data::Encoder::make(config.encode, tokenizer, data::read_model_identity(folder));
  return ollama_modelfile(*encoder, *tokenizer, {from, config.system, config.context});
}

void write_modelfile(const ModelfileConfig& config, const fs::path& folder) {
  try {
    write_file_atomically(folder / "Modelfile", modelfile_of(config, folder, "."));
  } catch (const UserError& problem) {
    if (config.required) throw;
    log::warning("no Modelfile: {}", problem.what());
  }
}

// Tokens added by a run are listed in its args.json: the base model has neither their embeddings nor their names.
void add_tokens(const Options& options, ExportOptions& job) {
  auto tokens = new_tokens(options);
  if (tokens.empty()) return;
  std::shared_ptr<const text::Tokenizer> tokenizer = text::load_tokenizer(job.model, tokens);
  job.changes.vocabulary = room_for(*tokenizer, vocabulary_config(options));
  job.finish = [model = job.model, tokens, tokenizer](const fs::path& folder) {
    text::write_extended_files(model, folder, tokens, *tokenizer);
  };
}

// The output folder may have any name, so its args.json records the template that was selected by the model's name.
void keep_template(const std::string& asked, const fs::path& model, const fs::path& folder) {
  auto path = folder / "args.json";
  auto args = fs::exists(path) ? read_config_file(path.string()) : Json{{"model", model.string()}};
  auto name = resolved_template(asked, data::Dialect::swift, model);
  args["template"] = name.empty() ? Json() : Json(name);
  train::write_args(folder, std::move(args));
}

// Tokenized rows, train and val, for --cached_dataset.
void write_cached_dataset(const Options& options) {
  const DataArguments data_args(options);
  const ExportArguments export_args(options);
  const ModelArguments model_args(options);
  const OutputArguments output_args(options);
  auto model = model_folder(options);
  auto tokenizer = text::load_tokenizer(model, new_tokens(options));
  auto encoder = data::Encoder::make(
      encode_config(options, model::read_config(model, rope_scaling_changes(options, model)).max_position_embeddings), tokenizer,
      data::read_model_identity(model));
  const auto mode = *export_args.template_mode;
  const auto purpose = mode == "rlhf"  ? data::TemplateMode::rlhf
                       : mode == "kto" ? data::TemplateMode::kto
                                       : data::TemplateMode::train;
  auto opened = data::open_datasets(dataset_config(options));
  fs::path folder = output_args.output_dir.has_value() ? fs::path(*output_args.output_dir)
                                                       : fs::path(model.lexically_normal().string() + "-cached_dataset");
  if (fs::exists(folder) && !fs::is_empty(folder) && !export_args.exist_ok)
    throw UserError(ExitCode::usage, fmt::format("{} exists already", folder.string()),
                    "choose another --output_dir, or pass --exist_ok true");
  train::check_output_folder(folder);
  ThreadPool pool(static_cast<size_t>(data_args.dataset_num_proc.is_set() ? *data_args.dataset_num_proc : usable_cores()));
  data::RowReport report(*data_args.strict);
  if (!opened.train && !opened.validation)
    throw UserError(ExitCode::usage, "there are no rows to write", "name them with --dataset");
  if (opened.train) data::write_cached_dataset(folder / "train", *opened.train, *encoder, report, pool, purpose);
  if (opened.validation) data::write_cached_dataset(folder / "val", *opened.validation, *encoder, report, pool, purpose);
  report.log_summary();
  if (purpose != data::TemplateMode::train) {
    fmt::print("written to {}\n", folder.string());
    return;
  }
  fmt::print("written to {}\nnext: {} sft --model {} --cached_dataset {}{}\n", folder.string(), program_name(options.front_end()),
             shell_quoted(*model_args.model), shell_quoted((folder / "train").string()),
             opened.validation ? " --cached_val_dataset " + shell_quoted((folder / "val").string()) : "");
}

ExportOptions export_options(const Options& options, bool merge_lora) {
  const ExportArguments export_args(options);
  const ModelArguments model_args(options);
  const OutputArguments output_args(options);
  ExportOptions job{.merge_lora = merge_lora,
                    .torch_dtype = dtype_option(ModelArguments(options).torch_dtype),
                    .exist_ok = *export_args.exist_ok};
  for (const auto& adapter : *model_args.adapters) job.adapters.emplace_back(adapter);
  auto model = model_args.model.value_or("");
  if (model.empty() && merge_lora && !job.adapters.empty()) model = base_of_adapter(job.adapters.front().string());
  if (merge_lora)
    for (const auto& adapter : job.adapters) remark_other_base(options, adapter);
  if (!model.empty()) {
    job.model = hub::locate_model(model, *HubArguments(options).model_revision);
    job.changes.config = rope_scaling_changes(options, job.model);
    job.changes.config.update(task_changes(options, job.model));
    add_tokens(options, job);
  }
  if (output_args.output_dir.has_value()) job.output_dir = *output_args.output_dir;
  job.max_shard_bytes = static_cast<size_t>(*output_args.max_shard_size);
  if (!uses_factory_dialect(options))
    job.finish = [asked = *TemplateArguments(options).template_name, model = job.model,
                  before = job.finish](const fs::path& folder) {
      if (before) before(folder);
      keep_template(asked, model, folder);
    };
  job.for_ollama = *export_args.to_ollama;
  if (*export_args.to_ollama || uses_factory_dialect(options))
    job.finish = [config = modelfile_config(options), before = job.finish](const fs::path& folder) {
      if (before) before(folder);
      write_modelfile(config, folder);
    };
  bool factory = options.front_end() == FrontEnd::factory;
  job.next = fmt::format("{} {}", program_name(options.front_end()), factory ? "chat --model_name_or_path" : "infer --model");
  return job;
}

int run_export(const Options& options, bool merge_lora) {
  const ExportArguments args(options);
  if (*args.to_cached_dataset) {
    write_cached_dataset(options);
    return 0;
  }
  require_method(options);
  reject_quantized_base(options);
  auto job = export_options(options, merge_lora);
  if (quantizes(options)) {
    if (pushes_export(options)) hub::require_upload(hub::config().site);
    auto written = export_quantized(options, job);
    if (!uses_factory_dialect(options)) keep_template(*TemplateArguments(options).template_name, job.model, written);
    if (pushes_export(options)) push_folder(options, written);
    return 0;
  }
  if (*args.to_peft_format) {
    auto written = export_adapter(job);
    if (pushes_export(options)) push_folder(options, written);
    return 0;
  }
  bool pushes = pushes_export(options), nothing_to_write = job.output_dir.empty() && (job.adapters.empty() || !merge_lora);
  if (pushes) hub::require_upload(hub::config().site);
  if (pushes && nothing_to_write) {  // pushes the folder as it is: an adapter or a model
    push_folder(options, job.adapters.empty() ? job.model : job.adapters.back());
    return 0;
  }
  bool only_modelfile = *args.to_ollama && job.adapters.empty() && ModelArguments(options).model.has_value();
  if (!only_modelfile) {
    auto written = export_model(job);
    if (pushes) push_folder(options, written);
    return 0;
  }
  fs::path folder = job.output_dir.empty() ? fs::path(job.model.lexically_normal().string() + "-ollama") : job.output_dir;
  fs::create_directories(folder);
  write_file_atomically(folder / "Modelfile",
                        modelfile_of(modelfile_config(options), job.model, fs::absolute(job.model).string()));
  fmt::print("written to {}\nnext: ollama create my-model -f {}\n", folder.string(),
             shell_quoted((folder / "Modelfile").string()));
  return 0;
}

}  // namespace

// LLaMA-Factory's export always merges the given adapters.
int export_command(const Options& options) {
  return run_export(options, uses_factory_dialect(options) || *GenerationArguments(options).merge_lora);
}

int merge_lora_command(const Options& options) { return run_export(options, true); }

}  // namespace hone::cli
