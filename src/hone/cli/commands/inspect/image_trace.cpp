// `hone image-trace`: prints rows with media as the model's input batch. For comparison with other implementations; hidden from
// help.
#include "hone/base/file.h"
#include "hone/cli/commands.h"
#include "hone/data/batches/collator.h"
#include "hone/data/encode/encoder.h"
#include "hone/io/safetensors.h"
#include "hone/model/encoders/vision_layout.h"

namespace hone::cli {
namespace {

data::EncodeConfig asked_encoding(const Json& asked) {
  const bool factory = asked.value("dialect", "swift") == "factory";
  auto config = data::dialect_defaults(factory ? data::Dialect::factory : data::Dialect::swift);
  config.template_name = asked.value("template", "");
  config.max_length = asked.value("max_length", int64_t{0});
  auto& pictures = config.pictures;
  if (asked.contains("min_pixels")) pictures.min_pixels = asked["min_pixels"].get<int64_t>();
  if (asked.contains("max_pixels")) pictures.max_pixels = asked["max_pixels"].get<int64_t>();
  pictures.max_tiles = asked.value("max_tiles", pictures.max_tiles);
  pictures.video_max_tiles = asked.value("video_max_tiles", pictures.video_max_tiles);
  pictures.num_frames = asked.value("num_frames", pictures.num_frames);
  pictures.crop_to_patches = asked.value("crop_to_patches", pictures.crop_to_patches);
  pictures.pan_and_scan = asked.value("pan_and_scan", pictures.pan_and_scan);
  pictures.fps = asked.value("fps", pictures.fps);
  if (asked.contains("norm_bbox")) pictures.norm_bbox = asked["norm_bbox"].get<std::string>();
  pictures.plain_boxes = asked.value("plain_boxes", false);
  pictures.audio_in_video = asked.value("audio_in_video", false);
  if (asked.value("video_positions", "5") == "4.57") pictures.video_positions = data::VideoPositions::transformers_4;
  if (asked.contains("min_frames")) pictures.min_frames = asked["min_frames"].get<int64_t>();
  if (asked.contains("max_frames")) pictures.max_frames = asked["max_frames"].get<int64_t>();
  if (asked.contains("video_max_pixels")) pictures.video_max_pixels = asked["video_max_pixels"].get<int64_t>();
  if (asked.contains("video_min_pixels")) pictures.video_min_pixels = asked["video_min_pixels"].get<int64_t>();
  pictures.shrink_above = asked.value("shrink_above", pictures.shrink_above);
  pictures.factory_min_pixels = asked.value("image_min_pixels", pictures.factory_min_pixels);
  pictures.factory_max_pixels = asked.value("image_max_pixels", pictures.factory_max_pixels);
  return config;
}

data::Conversation asked_conversation(const Json& row) {
  data::Conversation conversation;
  for (const auto& message : row.at("messages"))
    conversation.messages.push_back({.role = message.at("role"), .content = message.at("content")});
  conversation.images = row.value("images", std::vector<std::string>());
  conversation.audios = row.value("audios", std::vector<std::string>());
  for (const auto& video : row.value("videos", Json::array()))
    conversation.videos.push_back(video.is_string() ? video.get<std::string>() : video.dump());
  if (row.contains("objects")) conversation.extra["objects"] = row["objects"];
  return conversation;
}

int64_t row_size_of(const data::SamplePack& pack) {
  int64_t size = 0;
  for (const auto& sample : pack)
    for (const auto& picture : sample.pictures) size = picture.config->processor.row_size();
  return size;
}

}  // namespace

int image_trace_command(const Options& options) {
  const auto path = options.positional().front();
  const auto asked = parse_json(read_file(path)).or_throw(ExitCode::bad_data, path);
  const fs::path folder = asked.at("model").get<std::string>();
  const auto encoder =
      data::Encoder::make(asked_encoding(asked), text::Tokenizer::load(folder), data::read_model_identity(folder));
  data::SamplePack pack;
  for (const auto& row : asked.at("rows")) {
    auto conversation = asked_conversation(row);
    conversation.origin = {path, static_cast<int64_t>(pack.size()) + 1};
    pack.push_back(encoder->encode(conversation).or_throw(ExitCode::bad_data, path));
  }
  const auto batch = data::collate(std::vector<data::SamplePack>{pack}, data::PackMask::separate);
  std::vector<int64_t> sizes;
  for (const auto& grid : batch.images.grids) sizes.insert(sizes.end(), {grid.frames, grid.height, grid.width});
  std::vector<io::TensorSource> tensors{io::TensorSource::of("tokens", batch.tokens_t),
                                        io::TensorSource::of("targets", batch.targets_t),
                                        io::TensorSource::of("positions", batch.positions_t)};
  if (!sizes.empty()) {
    tensors.push_back(
        io::TensorSource::of("patches", model::repeat_frames(batch.images.patches_pr, row_size_of(pack), /*channels=*/3)));
    tensors.push_back(io::TensorSource::of("rows", batch.images.rows_n));
    tensors.push_back(io::TensorSource::of("grids", at::tensor(sizes, at::kLong).view({-1, 3})));
  }
  if (!batch.audio.lengths.empty()) {
    tensors.push_back(io::TensorSource::of("frames", batch.audio.frames_fm));
    tensors.push_back(io::TensorSource::of("audio_rows", batch.audio.rows_n));
    tensors.push_back(io::TensorSource::of("lengths", at::tensor(batch.audio.lengths, at::kLong)));
  }
  io::write_safetensors(asked.at("output").get<std::string>(), tensors);
  return 0;
}

}  // namespace hone::cli
