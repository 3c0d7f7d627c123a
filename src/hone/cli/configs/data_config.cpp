#include "hone/cli/configs/data_config.h"

#include <charconv>
#include <cstdlib>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/data/datasets/cached_dataset.h"
#include "hone/hub/locate.h"

namespace hone::cli {
namespace {

using data::DatasetConfig;
using data::EncodeConfig;

bool pretraining(const Options& options) {
  return options.verb() & kPt || (uses_factory_dialect(options) && options.has_option("stage") && options.text("stage") == "pt");
}

void read_columns(const Options& options, DatasetConfig& config) {
  auto columns = options.json("columns");
  if (columns.is_null()) return;
  bool names = columns.is_object() && std::all_of(columns.begin(), columns.end(), [](const Json& to) { return to.is_string(); });
  if (!names)
    throw UserError(ExitCode::usage, fmt::format("{} is {}", options.display_name("columns"), columns.dump()),
                    R"(expected an object from column to column: {"question": "query"})");
  for (const auto& [from, to] : columns.items()) config.columns[from] = to.get<std::string>();
}

// Their rows are made of records only where a model is to decide; elsewhere these options find nothing to change.
void read_decisions(const Options& options, DatasetConfig& config) {
  data::DecisionChanges changes;
  if (options.has_option("decision_shuffle_fields"))
    changes = {options.real("decision_drop_instructions"), options.integer("decision_subsample_options"),
               options.real("decision_state_as_text"), options.flag("decision_shuffle_fields")};
  if (options.has_option("task_type") && options.text("task_type") == "decision")
    config.decisions = changes;
  else if (changes.any())
    log::warning("the decision_* options have no effect without {} decision", options.display_name("task_type"));
}

void read_swift_data(const Options& options, DatasetConfig& config) {
  config.split_dataset_ratio = options.real("split_dataset_ratio");
  if (config.split_dataset_ratio >= 1)
    throw UserError(ExitCode::usage, fmt::format("{} is {}; expected a part below 1", options.display_name("split_dataset_ratio"),
                                                 config.split_dataset_ratio));
  if (!config.val_datasets.empty() || config.streaming) {  // ms-swift's rule
    if (config.split_dataset_ratio > 0)
      log::warning(
          "{} is ignored: {}", options.display_name("split_dataset_ratio"),
          config.streaming ? "a stream is not split; give separate validation data" : "there is separate validation data");
    config.split_dataset_ratio = 0;
  }
  config.shuffle = options.flag("dataset_shuffle");
  config.val_shuffle = options.flag("val_dataset_shuffle");
  config.custom_dataset_info = options.list("custom_dataset_info");
  if (options.has_option("train_dataset_sample")) config.train_samples = options.integer("train_dataset_sample");
  config.disable_auto_column_mapping = options.flag("disable_auto_column_mapping");
  config.model_name = options.list("model_name");
  config.model_author = options.list("model_author");
  read_columns(options, config);
  read_decisions(options, config);
  if (!config.interleave_prob.empty()) config.mix = data::MixStrategy::interleave;
  if (options.text("stopping_strategy") == "all_exhausted") config.stopping = data::StoppingStrategy::all_exhausted;
}

void read_factory_data(const Options& options, DatasetConfig& config) {
  config.dialect = DatasetConfig::Dialect::factory;
  config.dataset_dir = options.text("dataset_dir");
  config.media_dir = options.text("media_dir");
  config.val_size = options.real("split_dataset_ratio");
  if (options.has("max_samples")) config.max_samples = options.integer("max_samples");
  config.separate_validation = options.has_option("eval_on_each_dataset") && options.flag("eval_on_each_dataset");
  auto mix = options.text("mix_strategy");
  if (mix != "concat") config.mix = data::MixStrategy::interleave;
  if (mix == "interleave_over") config.stopping = data::StoppingStrategy::all_exhausted;
  if (mix == "interleave_once") config.stopping = data::StoppingStrategy::all_exhausted_once;
}

// A folder of `export --to_cached_dataset`, or one of its halves.
std::string encoded_half(const std::string& folder, const char* half) {
  auto inside = fs::path(folder) / half;
  return data::is_cached_dataset(inside) ? inside.string() : folder;
}

void read_cached_dataset(const Options& options, DatasetConfig& config) {
  if (!options.has_option("cached_dataset")) return;
  bool factory = options.text("dialect") == "factory";
  if (factory && options.has("cached_dataset")) {  // tokenized_path: all of the data, or nothing yet
    fs::path folder = options.list("cached_dataset").front();
    if (!data::is_cached_dataset(folder / "train") && !data::is_cached_dataset(folder / "validation")) {
      if (config.streaming)
        throw UserError(ExitCode::usage,
                        fmt::format("{} is written by a run that does not stream", options.display_name("cached_dataset")),
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
  for (const auto& folder : options.list("cached_dataset")) config.encoded.push_back(encoded_half(folder, "train"));
  for (const auto& folder :
       options.has_option("cached_val_dataset") ? options.list("cached_val_dataset") : std::vector<std::string>{})
    config.val_encoded.push_back(encoded_half(folder, "val"));
}

// A path ending in .txt is read; otherwise the two characters \n are a newline.
std::string prompt_text(std::string value) {
  std::error_code ignored;  // a prompt may be longer than any name
  if (value.ends_with(".txt") && fs::is_regular_file(value, ignored)) return read_file(value);
  for (size_t at = 0; (at = value.find("\\n", at)) != std::string::npos; ++at) value.replace(at, 2, "\n");
  return value;
}

// A number of the environment that ms-swift reads.
std::optional<int64_t> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text || !*text) return std::nullopt;
  int64_t value = 0;
  const std::string_view digits = text;
  auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (problem != std::errc() || end != digits.data() + digits.size() || value <= 0)
    throw UserError(ExitCode::usage, fmt::format("{} is \"{}\"; expected a positive number", variable, text));
  return value;
}

std::optional<double> positive_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text || !*text) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (*end != '\0' || !(value > 0) || value > 1000)
    throw UserError(ExitCode::usage, fmt::format("{} is \"{}\"; expected a number above 0", variable, text));
  return value;
}

// ms-swift: variables of the environment, tokens before pixels.
data::PictureOptions picture_options(const Options& options, bool factory) {
  data::PictureOptions pictures;
  const bool has_limit = options.has_option("max_pixels") && options.has("max_pixels");
  if (factory) {
    if (has_limit) pictures.factory_max_pixels = options.integer("max_pixels");
    if (options.has_option("image_min_pixels")) pictures.factory_min_pixels = options.integer("image_min_pixels");
    pictures.crop_to_patches = options.has_option("crop_to_patches") && options.flag("crop_to_patches");
    return pictures;
  }
  pictures.min_pixels = number_in("MIN_PIXELS");
  pictures.max_pixels = number_in("MAX_PIXELS");
  pictures.min_tokens = number_in("IMAGE_MIN_TOKEN_NUM");
  pictures.max_tokens = number_in("IMAGE_MAX_TOKEN_NUM");
  if (auto tiles = number_in("MAX_NUM")) pictures.max_tiles = std::min<int64_t>(*tiles, 1000);
  pictures.video_min_tokens = number_in("VIDEO_MIN_TOKEN_NUM");
  pictures.video_max_tokens = number_in("VIDEO_MAX_TOKEN_NUM");
  pictures.video_min_pixels = number_in("VIDEO_MIN_PIXELS");
  pictures.video_max_pixels = number_in("VIDEO_MAX_PIXELS");
  if (auto fps = positive_in("FPS")) pictures.fps = *fps;
  if (has_limit) pictures.shrink_above = options.integer("max_pixels");
  if (const char* folder = std::getenv("ROOT_IMAGE_DIR")) pictures.sources.folder = folder;
  return pictures;
}

std::optional<bool> decided(const Options& options, std::string_view name) {
  return options.setting(name).is_auto || !options.has(name) ? std::nullopt : std::optional(options.flag(name));
}

data::Truncation truncation_of(const std::string& name) {
  if (name == "left") return data::Truncation::left;
  if (name == "right") return data::Truncation::right;
  return name == "split" ? data::Truncation::split : data::Truncation::drop;
}

void read_swift_template(const Options& options, EncodeConfig& config) {
  config.truncation = truncation_of(options.text("truncation_strategy"));
  config.loss_scale = options.text("loss_scale");
  config.binary_loss_scale = decided(options, "is_binary_loss_scale");
  config.ignore_empty_think = !options.flag("disable_ignore_empty_think");
  config.add_non_thinking_prefix = options.flag("add_non_thinking_prefix");
  config.use_chat_template = options.flag("use_chat_template");
  if (options.has("response_prefix")) config.response_prefix = prompt_text(options.text("response_prefix"));
  if (options.text("template_backend") == "jinja") config.dialect = data::Dialect::jinja;
}

}  // namespace

bool uses_factory_dialect(const Options& options) {
  return options.has_option("dialect") && options.text("dialect") == "factory";
}

DatasetConfig dataset_config(const Options& options) {
  DatasetConfig config;
  config.datasets = options.list("dataset");
  config.val_datasets = options.list("val_dataset");
  config.data_seed = options.has("data_seed") ? options.integer("data_seed") : options.integer("seed");
  config.streaming = options.flag("streaming");
  config.strict = options.flag("strict");
  config.interleave_prob = options.reals("interleave_prob");
  config.shuffle_buffer_size = options.integer("shuffle_buffer_size");
  config.pretraining = pretraining(options);
  config.prefer_hf = hub::config().site == hub::Site::hugging_face;
  const char* modelscope = std::getenv("USE_MODELSCOPE_HUB");
  config.prefer_modelscope = modelscope && std::string_view(modelscope) != "0";
  config.resolver = [](const std::string& id, const std::string& hub) {
    auto site = hub == "hf" ? hub::Site::hugging_face : hub == "ms" ? hub::Site::modelscope : hub::config().site;
    return hub::locate_dataset(id, site);
  };
  uses_factory_dialect(options) ? read_factory_data(options, config) : read_swift_data(options, config);
  read_cached_dataset(options, config);
  return config;
}

std::string resolved_template(const Options& options, const std::filesystem::path& model) {
  auto asked = options.text("template");
  bool own = asked == "jinja";
  if (!asked.empty() && asked != "auto" && !own) return asked;
  auto usual = data::default_template(uses_factory_dialect(options) ? data::Dialect::factory : data::Dialect::swift,
                                      data::read_model_identity(model));
  return own && !usual.empty() ? asked : usual;
}

EncodeConfig encode_config(const Options& options, int64_t length_limit) {
  bool factory = uses_factory_dialect(options);
  EncodeConfig config = data::dialect_defaults(factory ? data::Dialect::factory : data::Dialect::swift);
  if (auto name = options.text("template"); name != "auto") config.template_name = name;
  if (options.has("system")) config.system = prompt_text(options.text("system"));
  config.max_length = options.has("max_length") ? options.integer("max_length") : length_limit;
  config.pretraining = pretraining(options);
  config.enable_thinking = decided(options, "enable_thinking");
  config.preserve_thinking = decided(options, "preserve_thinking");
  config.guard_special_tokens = options.flag("guard_special_tokens");
  if (auto format = options.text("agent_template"); format != "auto") config.tool_format = format;
  config.pictures = picture_options(options, factory);
  if (factory) {
    config.train_on_prompt = options.flag("train_on_prompt");
    config.mask_history = options.flag("mask_history");
    config.guard_special_tokens |= options.flag("split_special_tokens");
    config.concatenate_text = config.pretraining && options.flag("packing");
    // LLaMA-Factory keeps one token of a pack free when packing is asked for, and none when pre-training turns it on by itself.
    bool packs = options.flag("neat_packing") || (options.is_set("packing") && options.flag("packing"));
    if (packs) config.max_length = std::max<int64_t>(config.max_length - 1, 1);
  } else {
    read_swift_template(options, config);
  }
  return config;
}

}  // namespace hone::cli
