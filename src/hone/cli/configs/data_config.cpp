#include "hone/cli/configs/data_config.h"

#include <algorithm>
#include <cstdlib>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/strings/replace_all.h"
#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/tools.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/configs/media_config.h"
#include "hone/cli/parsing/config_entries.h"
#include "hone/data/datasets/cached_dataset.h"
#include "hone/data/encode/default_template.h"
#include "hone/hub/access.h"
#include "hone/hub/locate.h"

namespace hone::cli {
namespace {

using data::DatasetConfig;
using data::EncodeConfig;

bool pretraining(const TrainingArguments& args) {
  return args.verb() & kPt || (args.uses_factory_dialect() && *args.stage == "pt");
}

void read_columns(const DataArguments& args, DatasetConfig& config) {
  auto columns = *args.columns;
  if (columns.is_null()) return;
  bool names = columns.is_object() && std::all_of(columns.begin(), columns.end(), [](const Json& to) { return to.is_string(); });
  if (!names)
    throw UserError(ExitCode::usage, fmt::format("{} is {}", args.columns.flag(), columns.dump()),
                    R"(expected an object from column to column: {"question": "query"})");
  for (const auto& [from, to] : columns.items()) config.columns[from] = to.get<std::string>();
}

// Rows are built from records only for decision tasks; elsewhere these options have nothing to change.
void read_decisions(const Options& options, DatasetConfig& config) {
  const DataArguments data_args(options);
  const ModelArguments model_args(options);
  data::DecisionChanges changes;
  if (data_args.decision_shuffle_fields.exists())
    changes = {*data_args.decision_drop_instructions, *data_args.decision_subsample_options, *data_args.decision_state_as_text,
               *data_args.decision_shuffle_fields};
  if (*model_args.task_type == "decision")
    config.decisions = changes;
  else if (changes.any())
    log::warning("the decision_* options have no effect without {} decision", model_args.task_type.flag());
}

void read_swift_data(const Options& options, DatasetConfig& config) {
  const DataArguments args(options);
  config.split_dataset_ratio = *args.split_dataset_ratio;
  if (config.split_dataset_ratio >= 1)
    throw UserError(ExitCode::usage, fmt::format("{} is {}; expected a fraction below 1", args.split_dataset_ratio.flag(),
                                                 config.split_dataset_ratio));
  if (!config.val_datasets.empty() || config.streaming) {  // as in ms-swift
    if (config.split_dataset_ratio > 0)
      log::warning(
          "{} is ignored: {}", args.split_dataset_ratio.flag(),
          config.streaming ? "a stream is not split; give separate validation data" : "there is separate validation data");
    config.split_dataset_ratio = 0;
  }
  config.shuffle = *args.dataset_shuffle;
  config.val_shuffle = *args.val_dataset_shuffle;
  config.custom_dataset_info = *args.custom_dataset_info;
  if (args.train_dataset_sample.exists()) config.train_samples = *args.train_dataset_sample;
  config.disable_auto_column_mapping = *args.disable_auto_column_mapping;
  config.model_name = *args.model_name;
  config.model_author = *args.model_author;
  read_columns(args, config);
  read_decisions(options, config);
  if (!config.interleave_prob.empty()) config.mix = data::MixStrategy::interleave;
  if (*args.stopping_strategy == "all_exhausted") config.stopping = data::StoppingStrategy::all_exhausted;
}

void read_factory_data(const DataArguments& args, DatasetConfig& config) {
  config.dialect = DatasetConfig::Dialect::factory;
  config.dataset_dir = *args.dataset_dir;
  config.media_dir = *args.media_dir;
  config.val_size = *args.split_dataset_ratio;
  if (args.max_samples.has_value()) config.max_samples = *args.max_samples;
  config.separate_validation = *args.eval_on_each_dataset;
  auto mix = *args.mix_strategy;
  if (mix != "concat") config.mix = data::MixStrategy::interleave;
  if (mix == "interleave_over") config.stopping = data::StoppingStrategy::all_exhausted;
  if (mix == "interleave_once") config.stopping = data::StoppingStrategy::all_exhausted_once;
}

// A folder written by `export --to_cached_dataset`, or its train or val part.
std::string encoded_half(const std::string& folder, const char* half) {
  auto inside = fs::path(folder) / half;
  return data::is_cached_dataset(inside) ? inside.string() : folder;
}

void read_cached_dataset(const Options& options, DatasetConfig& config) {
  const DataArguments args(options);
  if (!args.cached_dataset.exists()) return;
  bool factory = *CommonArguments(options).dialect == "factory";
  if (factory && args.cached_dataset.has_value()) {  // tokenized_path: either the complete dataset or not yet written
    fs::path folder = args.cached_dataset->front();
    if (!data::is_cached_dataset(folder / "train") && !data::is_cached_dataset(folder / "validation")) {
      if (config.streaming)
        throw UserError(ExitCode::usage, fmt::format("{} is written by a run that does not stream", args.cached_dataset.flag()),
                        "turn streaming off");
      return;
    }
    log::warning("{}: rows are read from there; other data options are ignored", folder.string());
    config.datasets.clear(), config.val_datasets.clear();
    config.val_size = 0;
    if (data::is_cached_dataset(folder / "train")) config.encoded = {(folder / "train").string()};
    if (data::is_cached_dataset(folder / "validation")) config.val_encoded = {(folder / "validation").string()};
    return;
  }
  for (const auto& folder : *args.cached_dataset) config.encoded.push_back(encoded_half(folder, "train"));
  for (const auto& folder : *args.cached_val_dataset) config.val_encoded.push_back(encoded_half(folder, "val"));
}

// A path ending in .txt is read; otherwise "\n" written as two characters becomes a newline.
std::string prompt_text(const Arg<std::string>& option) {
  std::string value = *option;
  std::error_code ignored;  // a prompt may exceed the maximum length of a path
  if (value.ends_with(".txt") && fs::is_regular_file(value, ignored)) return read_utf8_file(value);
  if (value.ends_with(".txt") && value.find_first_of(" \n") == value.npos)
    throw UserError(ExitCode::usage, fmt::format("{} {}: there is no such file", option.flag(), value),
                    "expected a text, or the path of a .txt file that holds it");
  return replace_all(std::move(value), "\\n", "\n");
}

data::Truncation truncation_of(const std::string& name) {
  if (name == "left") return data::Truncation::left;
  if (name == "right") return data::Truncation::right;
  return name == "split" ? data::Truncation::split : data::Truncation::drop;
}

void read_swift_template(const Options& options, EncodeConfig& config) {
  const TemplateArguments args(options);
  config.truncation = truncation_of(*DataArguments(options).truncation_strategy);
  config.loss_scale = *args.loss_scale;
  config.binary_loss_scale = args.is_binary_loss_scale.optional();
  config.ignore_empty_think = !args.disable_ignore_empty_think;
  config.add_non_thinking_prefix = *args.add_non_thinking_prefix;
  config.use_chat_template = *args.use_chat_template;
  if (args.response_prefix.has_value()) config.response_prefix = prompt_text(args.response_prefix);
  if (args.norm_bbox.has_value()) config.pictures.norm_bbox = *args.norm_bbox;
  if (*args.template_backend == "jinja") config.dialect = data::Dialect::jinja;
}

}  // namespace

bool uses_factory_dialect(const Options& options) { return *CommonArguments(options).dialect == "factory"; }

DatasetConfig dataset_config(const Options& options) {
  const DataArguments args(options);
  DatasetConfig config;
  config.datasets = *args.dataset;
  config.val_datasets = *args.val_dataset;
  config.data_seed = args.data_seed.has_value() ? *args.data_seed : *ModelArguments(options).seed;
  config.streaming = *args.streaming;
  config.strict = *args.strict;
  config.interleave_prob = *args.interleave_prob;
  config.shuffle_buffer_size = *args.shuffle_buffer_size;
  config.pretraining = pretraining(TrainingArguments(options));
  config.prefer_hf = hub::config().site == hub::Site::hugging_face;
  const char* modelscope = std::getenv("USE_MODELSCOPE_HUB");
  config.prefer_modelscope = modelscope && std::string_view(modelscope) != "0";
  config.resolver = [](const std::string& id, const std::string& hub) {
    auto site = hub == "hf" ? hub::Site::hugging_face : hub == "ms" ? hub::Site::modelscope : hub::config().site;
    return hub::locate_dataset(id, site);
  };
  uses_factory_dialect(options) ? read_factory_data(args, config) : read_swift_data(options, config);
  read_cached_dataset(options, config);
  if (!config.interleave_prob.empty() && std::max(config.datasets.size(), config.val_datasets.size()) < 2)
    log::warning("{} has no effect with fewer than two datasets", args.interleave_prob.flag());
  return config;
}

std::string resolved_template(const std::string& asked, data::Dialect dialect, const std::filesystem::path& model) {
  const bool own = asked == "jinja";
  if (!asked.empty() && asked != "auto" && !own) return asked;
  auto usual = data::default_template(dialect, data::read_model_identity(model));
  return own && !usual.empty() ? asked : usual;
}

std::string resolved_template(const Options& options, const std::filesystem::path& model) {
  const TemplateArguments args(options);
  return resolved_template(*args.template_name, args.uses_factory_dialect() ? data::Dialect::factory : data::Dialect::swift,
                           model);
}

EncodeConfig encode_config(const Options& options, int64_t length_limit) {
  const DataArguments data_args(options);
  const ModelArguments model_args(options);
  const TemplateArguments template_args(options);
  bool factory = uses_factory_dialect(options);
  EncodeConfig config = data::dialect_defaults(factory ? data::Dialect::factory : data::Dialect::swift);
  if (auto name = *template_args.template_name; name != "auto") config.template_name = name;
  if (template_args.system.has_value()) config.system = prompt_text(template_args.system);
  config.max_length = data_args.max_length.value_or(length_limit);
  config.pretraining = pretraining(TrainingArguments(options));
  config.enable_thinking = template_args.enable_thinking.optional();
  config.preserve_thinking = template_args.preserve_thinking.optional();
  config.guard_special_tokens = *model_args.guard_special_tokens;
  if (auto format = *template_args.agent_template; format != "auto") config.tool_format = format;
  config.pictures = picture_options(options);
  if (factory) {
    config.train_on_prompt = *template_args.train_on_prompt;
    config.mask_history = *template_args.mask_history;
    config.guard_special_tokens |= *model_args.split_special_tokens;
    config.concatenate_text = config.pretraining && *data_args.packing;
    // LLaMA-Factory reserves one token per pack if packing is requested, and none if pre-training enables it implicitly.
    bool packs = *data_args.neat_packing || (data_args.packing.is_set() && *data_args.packing);
    if (packs) config.max_length = std::max<int64_t>(config.max_length - 1, 1);
  } else {
    read_swift_template(options, config);
  }
  return config;
}

}  // namespace hone::cli
