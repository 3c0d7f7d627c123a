#include "hone/cli/configs/data_config.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/tools.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/parsing/parse.h"
#include "hone/data/datasets/cached_dataset.h"
#include "hone/data/encode/default_template.h"
#include "hone/hub/access.h"
#include "hone/hub/fetch_url.h"
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
  for (size_t at = 0; (at = value.find("\\n", at)) != std::string::npos; ++at) value.replace(at, 2, "\n");
  return value;
}

// A numeric environment variable of ms-swift.
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

// Within the limits set by the environment, or these defaults.
hub::FetchLimits fetch_limits(hub::FetchLimits limits) {
  if (auto seconds = number_in("SWIFT_TIMEOUT")) limits.whole_time = std::chrono::seconds(std::min<int64_t>(*seconds, 86400));
  if (auto size = number_in("SWIFT_MAX_DOWNLOAD_SIZE_MB"))
    limits.most_bytes = static_cast<size_t>(std::min<int64_t>(*size, 1 << 20)) << 20;
  const char* inside = std::getenv("SWIFT_ALLOW_INTERNAL_URL");
  limits.private_addresses = inside && std::string_view(inside) == "1";
  return limits;
}

// Rows may refer to media by URL; downloads are cached next to the hub cache.
void read_fetching(media::SourceRules& sources) {
  const auto limits = fetch_limits({});
  sources.fetch = [limits](const std::string& url) {
    return hub::fetch_url(url, limits, hub::cache_of(hub::config().site) / "hone-media");
  };
}

// ms-swift's environment variables; limits in tokens take precedence over pixels.
data::PictureOptions picture_options(const ModelArguments& args, bool factory) {
  data::PictureOptions pictures;
  read_fetching(pictures.sources);
  const bool has_limit = args.max_pixels.has_value();
  pictures.audio_in_video = *args.use_audio_in_video;
  if (*args.video_positions == "4.57") pictures.video_positions = data::VideoPositions::transformers_4;
  if (factory) {
    if (has_limit) pictures.factory_max_pixels = *args.max_pixels;
    if (args.image_min_pixels.exists()) pictures.factory_min_pixels = *args.image_min_pixels;
    pictures.crop_to_patches = *args.crop_to_patches;
    pictures.pan_and_scan = *args.image_do_pan_and_scan;
    pictures.video_max_pixels = *args.video_max_pixels;
    pictures.video_min_pixels = *args.video_min_pixels;
    pictures.max_frames = *args.video_maxlen;
    pictures.fps = *args.video_fps;
    return pictures;
  }
  pictures.min_pixels = number_in("MIN_PIXELS");
  pictures.max_pixels = number_in("MAX_PIXELS");
  pictures.min_tokens = number_in("IMAGE_MIN_TOKEN_NUM");
  pictures.max_tokens = number_in("IMAGE_MAX_TOKEN_NUM");
  if (auto segments = number_in("VIDEO_SEGMENTS")) pictures.video_segments = std::min<int64_t>(*segments, 768);
  if (auto frames = number_in("NUM_FRAMES")) pictures.num_frames = std::min<int64_t>(*frames, 768);
  if (auto tiles = number_in("VIDEO_MAX_NUM")) pictures.video_max_tiles = std::min<int64_t>(*tiles, 1000);
  if (auto tiles = number_in("MAX_NUM")) pictures.max_tiles = std::min<int64_t>(*tiles, 1000);
  pictures.video_min_tokens = number_in("VIDEO_MIN_TOKEN_NUM");
  pictures.video_max_tokens = number_in("VIDEO_MAX_TOKEN_NUM");
  pictures.video_min_pixels = number_in("VIDEO_MIN_PIXELS");
  pictures.video_max_pixels = number_in("VIDEO_MAX_PIXELS");
  if (auto fps = positive_in("FPS")) pictures.fps = *fps;
  pictures.min_frames = number_in("FPS_MIN_FRAMES");
  pictures.max_frames = number_in("FPS_MAX_FRAMES");
  if (auto tokens = number_in("MODEL_SEQ_LEN")) pictures.total_tokens = static_cast<double>(*tokens);
  if (has_limit) pictures.shrink_above = *args.max_pixels;
  if (const char* boxes = std::getenv("QWENVL_BBOX_FORMAT")) pictures.plain_boxes = std::string_view(boxes) != "legacy";
  if (const char* folder = std::getenv("ROOT_IMAGE_DIR")) pictures.sources.folder = folder;
  return pictures;
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

data::PictureOptions picture_options(const Options& options) {
  return picture_options(ModelArguments(options), uses_factory_dialect(options));
}

std::function<Result<std::string>(const std::string& url)> request_media_fetcher() {
  const char* listed = std::getenv("SWIFT_URL_ALLOWED_HOSTS");
  if (!listed || !*listed) return nullptr;
  // A request and a server thread wait for it.
  auto limits = fetch_limits({.most_bytes = size_t{64} << 20, .whole_time = std::chrono::seconds(5)});
  const std::string_view text = listed;
  for (size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find(',', begin), text.size());
    auto host = text.substr(begin, end - begin);
    while (host.starts_with(' ')) host.remove_prefix(1);
    while (host.ends_with(' ')) host.remove_suffix(1);
    if (!host.empty()) limits.hosts.emplace_back(host);
  }
  if (std::ranges::count(limits.hosts, "*") > 0) limits.hosts.clear();
  return [limits](const std::string& url) { return hub::fetch_bytes(url, limits); };
}

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
  config.pictures = picture_options(model_args, factory);
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
