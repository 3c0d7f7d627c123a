#include "hone/data/encode/picture_config.h"

#include <algorithm>
#include <cmath>

#include "hone/base/log.h"

namespace hone::data {
namespace {

using text::TokenId;

// How a family represents an image in a prompt.
struct PictureTokens {
  const char *start, *pad, *end;
  const char* video = "<|video_pad|>";
};
constexpr PictureTokens kQwenTokens{"<|vision_start|>", "<|image_pad|>", "<|vision_end|>"},
    kOmniTokens{"<|vision_bos|>", "<|IMAGE|>", "<|vision_eos|>", "<|VIDEO|>"}, kInternTokens{"<img>", "<IMG_CONTEXT>", "</img>"},
    kGemmaTokens{"<start_of_image>", "<image_soft_token>", "<end_of_image>"},
    kOvisTokens{nullptr, "<|image_pad|>", nullptr};  // its marker tokens belong to the vision tower

TokenId vision_token(const text::Tokenizer& tokenizer, const char* name) {
  if (auto id = tokenizer.id_of(name)) return *id;
  throw UserError(ExitCode::bad_checkpoint,
                  fmt::format("the tokenizer has no token {}, which a model with a vision tower needs", name),
                  "use the tokenizer files that came with the model");
}

void read_tokens(PictureConfig& config, const PictureTokens& names, const text::Tokenizer& tokenizer,
                 const ModelIdentity& model) {
  if (names.start) config.start = vision_token(tokenizer, names.start);
  config.pad = vision_token(tokenizer, names.pad);
  if (names.end) config.end = vision_token(tokenizer, names.end);
  if (model.image_token && config.pad != *model.image_token)
    throw UserError(
        ExitCode::bad_checkpoint,
        fmt::format("{} is token {}, and config.json's image_token_id is {}", names.pad, config.pad, *model.image_token),
        "use the tokenizer files that came with the model");
}

// ms-swift counts in tokens, so a number of pixels is rounded down to whole tokens; transformers reads the model's own files.
void set_pixel_bounds(media::ImageProcessorConfig& processor, const PictureOptions& asked) {
  const int64_t cell = processor.factor() * processor.factor();
  auto whole = [&](std::optional<int64_t> tokens, std::optional<int64_t> pixels, int64_t otherwise) {
    const int64_t count = tokens ? *tokens : pixels ? std::max<int64_t>(*pixels / cell, 1) : otherwise;
    return count * cell;
  };
  processor.min_pixels = whole(asked.min_tokens, asked.min_pixels, 4);
  processor.max_pixels = whole(asked.max_tokens, asked.max_pixels, 16384);
  if (processor.min_pixels > processor.max_pixels)
    throw UserError(ExitCode::usage,
                    fmt::format("the smallest image has {} pixels, the largest {}", processor.min_pixels, processor.max_pixels),
                    "give MIN_PIXELS below MAX_PIXELS");
}

// A number of pixels, or one for each side.
int64_t side_in(const Json& vision, const char* field, int64_t otherwise) {
  auto size = vision.value(field, Json(otherwise));
  if (size.is_array() && !size.empty()) size = Json(size.front());
  if (!size.is_number_integer() || size.get<int64_t>() < 1 || size.get<int64_t>() > 4096)
    throw UserError(ExitCode::bad_checkpoint, fmt::format("vision_config: \"{}\" is {}; expected pixels", field, size.dump()));
  return size.get<int64_t>();
}

// Reads both spellings. An image is split into tiles unless LLaMA-Factory's crop_to_patches is off.
void set_intern_rules(PictureConfig& config, const EncodeConfig& encode, const ModelIdentity& model) {
  const bool factory = encode.dialect == Dialect::factory;
  auto& processor = config.processor;
  processor.temporal_patch_size = 1;
  processor.mean = {0.485, 0.456, 0.406};
  processor.std = {0.229, 0.224, 0.225};
  processor.patch_size = side_in(model.vision, "patch_size", 14);
  processor.tiles.side = side_in(model.vision, "image_size", 448);
  processor.tiles.most = factory && !encode.pictures.crop_to_patches ? 1 : encode.pictures.max_tiles;
  processor.divides_by_255 = model.model_type == "internvl_chat";
  config.has_axes = false;
  config.video.frame_kind = FrameKind::images;
  if (factory) return;
  config.text_after = "\n";
  config.video.segments = encode.pictures.video_segments;
  config.video.max_tiles = encode.pictures.video_max_tiles;
}

// Gemma 3 resizes every image to one square. ms-swift adds its two newlines as tokens, LLaMA-Factory as text.
void set_gemma_rules(PictureConfig& config, const EncodeConfig& encode, const ModelIdentity& model) {
  auto& processor = config.processor;
  processor.temporal_patch_size = 1;
  processor.mean = processor.std = {0.5, 0.5, 0.5};
  processor.patch_size = side_in(model.vision, "patch_size", 14);
  processor.tiles.side = side_in(model.vision, "image_size", 896);
  processor.tiles.most = 1;
  processor.filter = media::Filter::bilinear;
  const auto cells = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(model.tokens_per_image))));
  processor.merge_size = std::max<int64_t>(1, processor.tiles.side / processor.patch_size / std::max<int64_t>(cells, 1));
  config.text_before = config.text_after = "\n\n";
  config.has_text_apart = encode.dialect != Dialect::factory;
  config.has_axes = false;
  if (encode.dialect != Dialect::factory) return;  // ms-swift never splits, regardless of the model's file
  processor.pan_and_scan.is_on = encode.pictures.pan_and_scan;
  if (!encode.pictures.pan_and_scan && model.image_processor.is_object() &&
      model.image_processor.value("do_pan_and_scan", Json()) == true)
    throw UserError(ExitCode::bad_checkpoint,
                    model.name + "/preprocessor_config.json: \"do_pan_and_scan\" is true, and the run asks for whole images",
                    "give `image_do_pan_and_scan: true`, or set it to false there");
}

// Its bounds are pixels, not tokens. Two more rows are the marks around a picture or a video.
void set_ovis_rules(PictureConfig& config, const PictureOptions& asked, const ModelIdentity& model) {
  auto& processor = config.processor;
  processor.patch_size = side_in(model.vision, "patch_size", 16);
  processor.merge_size = side_in(model.vision, "hidden_stride", 2);
  processor.temporal_patch_size = 1;
  processor.mean = processor.std = {0.5, 0.5, 0.5};
  processor.filter = media::Filter::bilinear;
  processor.marks = 2;
  processor.min_pixels = asked.min_pixels.value_or(448 * 448);
  processor.max_pixels = asked.max_pixels.value_or(1344 * 1792);
  if (processor.min_pixels > processor.max_pixels)
    log::warn_once(
        fmt::format("the largest image has {} pixels, the smallest {}: Ovis2.5 shrinks larger images below the smallest "
                    "size and enlarges small ones above the largest; give MIN_PIXELS below MAX_PIXELS",
                    processor.max_pixels, processor.min_pixels));
  config.video.frame_kind = FrameKind::stacked;
  config.video.segments = asked.num_frames;
  config.video.max_pixels = asked.video_max_pixels.value_or(896 * 896);
  config.text_after = "\n";
  config.has_axes = false;
}

// transformers' own limits for videos; without a video preprocessor file, those of images apply.
void read_video_bounds(PictureConfig& config, const ModelIdentity& model) {
  auto bounds = config.processor;
  if (model.video_processor.is_object())
    bounds = media::parse_image_processor(model.video_processor, bounds, model.name + "/video_preprocessor_config.json");
  config.video.min_pixels = bounds.min_pixels;
  config.video.max_pixels = bounds.max_pixels;
}

// Which frames of a file, and in LLaMA-Factory how large they become.
void set_frame_rules(VideoConfig& video, const PictureOptions& asked, bool factory) {
  video.fps = asked.fps;
  video.min_frames = asked.min_frames.value_or(video.min_frames);
  video.max_frames = asked.max_frames.value_or(factory ? 128 : video.max_frames);
  video.frame_min_pixels = asked.video_min_pixels.value_or(video.frame_min_pixels);
  video.frame_max_pixels = asked.video_max_pixels.value_or(video.frame_max_pixels);
}

bool has_qwen3_tower(const ModelIdentity& model) {
  return model.model_type.starts_with("qwen3_vl") || model.model_type.starts_with("qwen3_5");
}

void set_video_rules(PictureConfig& config, const PictureOptions& asked, const text::Tokenizer& tokenizer,
                     const PictureTokens& names, const ModelIdentity& model) {
  config.video_pad = tokenizer.id_of(names.video).value_or(-1);
  auto& video = config.video;
  const int64_t cell = config.processor.factor() * config.processor.factor();
  auto tokens = [&](std::optional<int64_t> count, std::optional<int64_t> pixels, int64_t otherwise) {
    return count ? *count : pixels ? std::max<int64_t>(*pixels / cell, 1) : otherwise;
  };
  video.min_tokens = tokens(asked.video_min_tokens, asked.video_min_pixels, video.min_tokens);
  video.max_tokens = tokens(asked.video_max_tokens, asked.video_max_pixels, video.max_tokens);
  video.total_tokens = asked.total_tokens.value_or(video.total_tokens);
  video.has_timestamps = has_qwen3_tower(model);
  video.counts_time = model.position_rate > 0;
  video.tokens_per_second = model.position_rate;
  video.positions = asked.video_positions;
  video.chunk_seconds = model.chunk_seconds;
  if (asked.audio_in_video && model.audio.is_object())
    video.sound = model.model_type == "qwen2_5_omni" ? SoundMix::chunks : SoundMix::tokens;
  read_video_bounds(config, model);
  if (model.model_type != "qwen2_5_vl") return;
  const auto rate = model.vision.value("tokens_per_second", Json(4));
  if (!rate.is_number() || rate.get<double>() <= 0 || rate.get<double>() > 1000)
    throw UserError(ExitCode::bad_checkpoint,
                    fmt::format("vision_config: \"tokens_per_second\" is {}; expected a number above 0", rate.dump()));
  video.tokens_per_second = rate.get<double>();
}

void set_box_rules(BoxConfig& boxes, const PictureOptions& asked, const ModelIdentity& model) {
  using Style = BoxConfig::Style;
  const bool plain = model.model_type == "gemma3" || model.model_type == "ovis2_5";
  boxes.style = plain                                      ? Style::plain
                : model.model_type.starts_with("internvl") ? Style::intern
                : asked.plain_boxes                        ? Style::list
                                                           : Style::qwen;
  boxes.in_pixels = asked.norm_bbox ? *asked.norm_bbox == "none" : model.model_type.starts_with("qwen2_5");
}

}  // namespace

std::shared_ptr<const PictureConfig> picture_config(const EncodeConfig& encode, const text::Tokenizer& tokenizer,
                                                    const ModelIdentity& model) {
  if (!model.vision.is_object()) return nullptr;
  auto config = std::make_shared<PictureConfig>();
  auto& processor = config->processor;
  const auto& asked = encode.pictures;
  const bool factory = encode.dialect == Dialect::factory, intern = model.model_type.starts_with("internvl"),
             gemma = model.model_type == "gemma3", ovis = model.model_type == "ovis2_5";
  if (intern) set_intern_rules(*config, encode, model);
  if (gemma) set_gemma_rules(*config, encode, model);
  if (ovis) set_ovis_rules(*config, asked, model);
  if (has_qwen3_tower(model) || model.model_type == "qwen3_omni_moe") {
    processor.patch_size = 16;
    processor.mean = processor.std = {0.5, 0.5, 0.5};
    processor.min_pixels = 65536, processor.max_pixels = 16777216;
  }
  if (!model.image_processor.is_null() && model.model_type != "internvl_chat")  // which hard-codes its numbers
    processor = media::parse_image_processor(model.image_processor, processor, model.name + "/preprocessor_config.json");
  const bool is_qwen = !intern && !gemma && !ovis;
  if (!factory && is_qwen) set_pixel_bounds(processor, asked);
  processor.rule = factory ? media::ResizeRule::factory : ovis ? media::ResizeRule::ovis : media::ResizeRule::qwen_vl_utils;
  processor.shrink_above = asked.shrink_above;
  processor.factory_min_pixels = asked.factory_min_pixels;
  processor.factory_max_pixels = asked.factory_max_pixels;
  config->sources = asked.sources;
  const auto& names = intern                               ? kInternTokens
                      : gemma                              ? kGemmaTokens
                      : ovis                               ? kOvisTokens
                      : model.model_type == "qwen2_5_omni" ? kOmniTokens
                                                           : kQwenTokens;
  read_tokens(*config, names, tokenizer, model);
  if (config->video.frame_kind != FrameKind::joined) config->video_pad = config->pad;
  set_frame_rules(config->video, asked, factory);
  set_box_rules(config->boxes, asked, model);
  config->boxes.reads_objects = !factory;
  if (is_qwen) set_video_rules(*config, asked, tokenizer, names, model);
  return config;
}

}  // namespace hone::data
