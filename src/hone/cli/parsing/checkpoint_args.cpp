#include "hone/cli/parsing/checkpoint_args.h"

#include <algorithm>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/configs/data_config.h"
#include "hone/data/encode/default_template.h"
#include "hone/io/peft.h"
#include "hone/text/templates/template_tables.h"
#include "hone/train/run_folder.h"

namespace hone::cli {
namespace {

constexpr std::string_view kAlways[] = {"tuner_type", "task_type", "bnb_4bit_quant_type", "bnb_4bit_use_double_quant"};
constexpr std::string_view kIfUnset[] = {"model",
                                         "model_type",
                                         "model_revision",
                                         "torch_dtype",
                                         "attn_impl",
                                         "experts_impl",
                                         "new_special_tokens",
                                         "num_labels",
                                         "problem_type",
                                         "rope_scaling",
                                         "max_model_len",
                                         "system",
                                         "truncation_strategy",
                                         "agent_template",
                                         "norm_bbox",
                                         "use_audio_in_video",
                                         "video_positions",
                                         "use_chat_template",
                                         "response_prefix"};
constexpr std::string_view kQuantization[] = {"quant_method", "quant_bits", "hqq_axis", "bnb_4bit_compute_dtype"};
constexpr std::string_view kData[] = {"dataset",
                                      "val_dataset",
                                      "cached_dataset",
                                      "cached_val_dataset",
                                      "split_dataset_ratio",
                                      "data_seed",
                                      "dataset_num_proc",
                                      "load_from_cache_file",
                                      "dataset_shuffle",
                                      "val_dataset_shuffle",
                                      "streaming",
                                      "interleave_prob",
                                      "stopping_strategy",
                                      "shuffle_buffer_size",
                                      "download_mode",
                                      "columns",
                                      "strict",
                                      "remove_unused_columns",
                                      "disable_auto_column_mapping",
                                      "model_name",
                                      "model_author",
                                      "custom_dataset_info"};

// Options whose value may name a file that is then read. A folder is untrusted data: it may name only its own files. Paths of the
// model and the datasets it was trained with are opened separately.
constexpr std::string_view kMayNameFiles[] = {"template",           "system",       "response_prefix",
                                              "new_special_tokens", "rope_scaling", "columns"};

bool is_file(const fs::path& path) {
  std::error_code ignored;  // also for names that exceed the maximum length
  return fs::is_regular_file(path, ignored);
}

// `value` of option `name` from the args.json in `folder`, with names of files inside the folder made absolute. Throws if it
// names a file elsewhere.
Json kept_inside(const fs::path& folder, std::string_view name, Json value) {
  if (std::ranges::find(kMayNameFiles, name) == std::end(kMayNameFiles)) return value;
  if (value.is_array())
    for (auto& item : value) item = kept_inside(folder, name, std::move(item));
  if (!value.is_string()) return value;
  const auto& word = value.get_ref<const std::string&>();
  bool built_in = name == "template" && (text::find_swift_template(word) || text::find_factory_template(word));
  if (word.empty() || built_in) return value;
  if (is_file(folder / word) && is_inside(folder, folder / word)) return (folder / word).string();
  if (is_file(word) || is_file(folder / word))
    throw UserError(ExitCode::bad_checkpoint,
                    fmt::format("{}: {} is \"{}\", a file outside this folder, which it may not have read",
                                (folder / "args.json").string(), name, word),
                    fmt::format("give --{} yourself if you trust that file, or ignore args.json with --load_args false", name));
  return value;
}

class CheckpointArgs {
 public:
  CheckpointArgs(Options& options, const std::string& folder, const Json& args)
      : options_(options),
        folder_(fs::absolute(folder).lexically_normal()),
        where_((fs::path(folder) / "args.json").string()),
        args_(args) {}

  void take(std::string_view name) {
    auto found = lookup(name);
    if (!found || found->is_null() || !options_.has_option(name)) return;
    auto value = read_value(*options_.setting(name).option, *found);
    if (!value)
      throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: {} is {}; {}", where_, name, found->dump(), value.error()));
    options_.set(name, kept_inside(folder_, name, std::move(*value)), Source::checkpoint, where_);
  }
  // "Unset" as in ms-swift: neither a default nor the user gave a value.
  void take_if_unset(std::string_view name) {
    if (!options_.has_option(name) || options_.is_set(name)) return;
    bool has_verb_default = name == "truncation_strategy" || name == "use_chat_template";
    if (!options_.has(name) || has_verb_default) take(name);
  }
  // If args.json names no template, the run used the one selected by its model's name, or else the model's own: the name of the
  // folder being read must not select again. Plain text has no template.
  void take_template() {
    const auto option = TemplateArguments(options_).template_name;
    take_if_unset(option.name());
    auto named = args_.find("template"), chat = args_.find("use_chat_template"), model = args_.find("model");
    bool silent = named != args_.end() && named->is_null(), bare = chat != args_.end() && *chat == false;
    if (!silent || bare || !option.exists() || option.has_value()) return;
    std::string name;
    if (model != args_.end() && model->is_string() && fs::exists(model->get_ref<const std::string&>()))
      name = data::default_template(data::Dialect::swift, data::read_model_identity(model->get_ref<const std::string&>()));
    options_.set(option.name(), name.empty() ? "jinja" : name, Source::checkpoint, where_);
  }
  // args.json has the base model as the command line named it, perhaps relative to another working directory; adapter_config.json
  // has its absolute path.
  bool base_is_elsewhere() const {
    const Json* named = lookup("model");
    if (!named || !named->is_string() || fs::is_directory(named->get_ref<const std::string&>()) || !io::adapter_files_in(folder_))
      return false;
    return fs::is_directory(io::read_adapter_config(folder_).base_model);
  }
  // The validation rows that training wrote next to its checkpoints: neither the training data nor another split is needed.
  void take_split_rows() {
    const DataArguments args(options_);
    if (args.val_dataset.has_value() || !(*args.split_dataset_ratio > 0)) return;
    for (const auto& folder : {folder_.parent_path(), folder_}) {
      auto file = folder / train::kValidationFile;
      if (!fs::is_regular_file(file)) continue;
      options_.set(args.val_dataset.name(), Json::array({file.string()}), Source::checkpoint, where_);
      options_.set(args.dataset.name(), Json::array(), Source::checkpoint, where_);
      options_.set(args.split_dataset_ratio.name(), 0.0, Source::checkpoint, where_);
      return;
    }
  }

 private:
  // Files of ms-swift 3.x have train_type.
  const Json* lookup(std::string_view name) const {
    if (auto found = args_.find(name); found != args_.end()) return &*found;
    auto old = name == "tuner_type" ? args_.find("train_type") : args_.end();
    return old == args_.end() ? nullptr : &*old;
  }
  Options& options_;
  fs::path folder_;
  std::string where_;
  const Json& args_;
};

// An adapter trained on a quantized base is merged into the unquantized base: full-precision weights can represent it.
bool merges_into_whole_weights(const Options& options) {
  return options.verb() & kExport || (options.verb() & kGenerating && *GenerationArguments(options).merge_lora);
}

}  // namespace

void apply_checkpoint_args(Options& options, const std::string& folder, const Json& args) {
  if (!args.is_object()) throw UserError(ExitCode::bad_checkpoint, fmt::format("{}/args.json: expected an object", folder));
  CheckpointArgs from(options, folder, args);
  for (auto name : kAlways) from.take(name);
  for (auto name : kIfUnset)
    if (name != "model" || !from.base_is_elsewhere()) from.take_if_unset(name);
  from.take_template();
  if (!merges_into_whole_weights(options))
    for (auto name : kQuantization) from.take_if_unset(name);
  if (!ModelArguments(options).load_data_args) return;
  for (auto name : kData) from.take(name);
  if (options.verb() & kInfer) from.take_split_rows();
}

namespace {

// A folder written by training or export records its template in args.json, in case its own name does not identify one.
void take_template_of_model(Options& options) {
  const auto option = TemplateArguments(options).template_name;
  const auto model = ModelArguments(options).model;
  if (!option.exists() || !model.has_value() || option.has_value() || uses_factory_dialect(options)) return;
  fs::path folder = *model, path = folder / "args.json";
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored) ||
      !data::default_template(data::Dialect::swift, data::read_model_identity(folder)).empty())
    return;
  const auto args = parse_json(read_file(path)).or_throw(ExitCode::bad_checkpoint, path.string());
  auto name = args.is_object() ? args.value("template", Json()) : Json();
  if (!name.is_string()) return;
  name = kept_inside(fs::absolute(folder).lexically_normal(), option.name(), std::move(name));
  log::info("template {}: {} names it", name.get_ref<const std::string&>(), path.string());
  options.set(option.name(), name, Source::checkpoint, path.string());
}

}  // namespace

void load_checkpoint_args(Options& options) {
  const ModelArguments args(options);
  const bool trains = options.verb() & (kTraining | kPreview);
  // LLaMA-Factory's training reads no settings of earlier runs: full weights may be tuned by lora now, and merged ones in full.
  const bool reads = *args.load_args && !(trains && uses_factory_dialect(options) && !args.load_args.is_set());
  if (trains && !reads) return take_template_of_model(options);
  if (!reads) return;
  auto folders = *args.adapters;
  if (args.model.has_value()) folders.push_back(*args.model);
  for (auto folder : folders) {
    if (auto equals = folder.find('='); equals != std::string::npos && !fs::exists(folder)) folder = folder.substr(equals + 1);
    auto path = fs::path(folder) / "args.json";
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) continue;
    auto args = parse_json(read_file(path)).or_throw(ExitCode::bad_checkpoint, path.string());
    log::info("reading {}", path.string());
    return apply_checkpoint_args(options, folder, args);
  }
}

}  // namespace hone::cli
