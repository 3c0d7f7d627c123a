#include "hone/data/encode/pictures.h"

#include <charconv>

#include "hone/base/error.h"
#include "hone/base/strings/counted.h"
#include "hone/base/strings/replace_all.h"
#include "hone/data/encode/media_tags.h"
#include "hone/data/videos/videos.h"
#include "hone/media/decode_image.h"
#include "hone/media/image_header.h"

namespace hone::data {
namespace {

constexpr std::string_view kMarkOpen = "\uFDD2", kMarkClose = "\uFDD3", kMarkReplacement = "\uFFFD";
constexpr std::string_view kKinds = "iva";  // of Placeholder, after each index of a marker

size_t count_tags(const std::vector<Message>& messages, const std::string& tag) {
  size_t count = 0;
  for (const auto& message : messages)
    for (size_t at = message.content.find(tag); at != std::string::npos; at = message.content.find(tag, at + tag.size())) ++count;
  return count;
}

std::string marks_of(std::span<const Picture> pictures) {
  std::string marks;
  for (const auto& picture : pictures) {
    const auto& config = *picture.config;
    const PlaceholderRun whole{picture.geometry.tokens, picture.is_video() ? Placeholder::video : Placeholder::image};
    const auto mark = media_mark(picture.mixed.empty() ? std::span(&whole, 1) : std::span(picture.mixed));
    marks +=
        picture.text_before + (config.has_text_apart ? mark : config.text_before + mark + config.text_after) + picture.text_after;
  }
  return marks;
}

// As LLaMA-Factory writes it, which it also does without tiles.
void add_crops(Picture& picture) {
  const auto& rule = picture.config->processor.pan_and_scan;
  if (!rule.is_on) return;
  picture.text_before = "Here is the original image ";
  picture.text_after = " and here are some crops to help you see better ";
  for (auto& geometry : media::crop_geometries(picture.geometry, rule))
    picture.crops.push_back({.source = picture.source,
                             .geometry = std::move(geometry),
                             .config = picture.config,
                             .text_before = picture.crops.empty() ? "" : " "});
}

std::vector<Picture> with_crops(Picture picture) {
  auto crops = std::exchange(picture.crops, {});
  crops.insert(crops.begin(), std::move(picture));
  return crops;
}

}  // namespace

void check_tags(std::vector<Message>& messages, size_t media, TagRule rule, const std::string& tag, const char* kind) {
  const size_t tags = count_tags(messages, tag);
  if (rule == TagRule::must_match && tags != media)
    throw MediaError(fmt::format("{} <{}> for {}; expected as many", counted(tags, "tag"), kind, counted(media, kind)));
  if (tags >= media || messages.empty()) return;
  const size_t first = messages[0].role == "system" && messages.size() > 1 ? 1 : 0;
  std::string missing;
  for (size_t i = tags; i < media; ++i) missing += tag;
  messages[first].content = missing + messages[first].content;
}

Result<media::ImageGeometry> read_geometry(const media::Medium& medium, const PictureConfig& config) {
  auto header = media::read_image_header(medium.bytes());
  if (!header) return Error{header.error()};
  return media::image_geometry(header->size, config.processor);
}

Result<std::vector<Picture>> open_pictures(const std::vector<std::string>& sources,
                                           const std::shared_ptr<const PictureConfig>& config) {
  std::vector<Picture> pictures;
  for (const auto& source : sources) {
    auto failed = [&](const std::string& why) { return error("image {}: {}", media::describe_source(source), why); };
    auto medium = media::Medium::open(source, config->sources);
    if (!medium) return failed(medium.error());
    auto geometry = read_geometry(*medium, *config);
    if (!geometry) return failed(geometry.error());
    pictures.push_back({source, std::move(*geometry), config, 0});
    add_crops(pictures.back());
  }
  return pictures;
}

MarkedMessages mark_pictures(std::vector<Message> messages, const VisualMedia& media, TagRule rule, const MediaTags& tags) {
  const auto &image_tag = tags.image, &video_tag = tags.video;
  check_tags(messages, media.images.size(), rule, image_tag, "image");
  check_tags(messages, media.videos.size(), rule, video_tag, "video");
  MarkedMessages marked;
  size_t images = 0, videos = 0;
  for (auto& message : messages) {
    auto& text = message.content;
    text = without_picture_marks(std::move(text));
    for (size_t at = 0; at < text.size();) {
      const size_t image = images < media.images.size() ? text.find(image_tag, at) : text.npos,
                   video = videos < media.videos.size() ? text.find(video_tag, at) : text.npos;
      if (image == text.npos && video == text.npos) break;
      const bool is_video = video < image;
      const auto parts = is_video ? media.videos[videos++] : with_crops(media.images[images++]);
      const auto marks = marks_of(parts);
      at = is_video ? video : image;
      text.replace(at, is_video ? video_tag.size() : image_tag.size(), marks);
      at += marks.size();
      marked.pictures.insert(marked.pictures.end(), parts.begin(), parts.end());
    }
  }
  marked.messages = std::move(messages);
  return marked;
}

std::string media_mark(std::span<const PlaceholderRun> runs) {
  std::string mark(kMarkOpen);
  for (const auto& run : runs) mark += std::to_string(run.tokens) + kKinds[static_cast<size_t>(run.kind)];
  return mark.append(kMarkClose);
}

bool has_mark(std::string_view text) { return text.find(kMarkOpen) != std::string_view::npos; }

std::string without_picture_marks(std::string text) {
  if (!has_mark(text)) return text;
  return replace_all(std::move(text), std::string(kMarkOpen), std::string(kMarkReplacement));
}

std::vector<MarkedPiece> split_at_marks(std::string_view text) {
  std::vector<MarkedPiece> pieces;
  while (true) {
    const size_t open = text.find(kMarkOpen), close = text.find(kMarkClose, open == text.npos ? text.size() : open);
    MarkedPiece piece{text.substr(0, open)};
    if (close == text.npos) return pieces.push_back(piece), pieces;
    const auto mark = text.substr(open + kMarkOpen.size(), close - open - kMarkOpen.size());
    for (const char *at = mark.data(), *end = at + mark.size(); at < end;) {
      PlaceholderRun run;
      at = std::from_chars(at, end, run.tokens).ptr;
      if (at < end) run.kind = static_cast<Placeholder>(std::min(kKinds.find(*at++), kKinds.size() - 1));
      piece.runs.push_back(run);
    }
    pieces.push_back(piece);
    text.remove_prefix(close + kMarkClose.size());
  }
}

float Picture::time(int64_t pair) const {
  // In the order of operations of transformers.
  if (config->video.counts_time) return static_cast<float>(pair) * seconds * static_cast<float>(config->video.tokens_per_second);
  return static_cast<float>(pair) * interval;
}

media::ImageSize Picture::input_size() const {
  if (!is_video()) return geometry.steps.back().to;
  return {geometry.grid_w * config->processor.patch_size, geometry.grid_h * config->processor.patch_size};
}

static std::string describe_crop(const media::ImageBox& box) {
  return fmt::format("crop of {} x {} pixels at ({}, {}) of image", box.size.width, box.size.height, box.left, box.top);
}

std::string describe(const Picture& picture) {
  const auto& geometry = picture.geometry;
  const auto seen = picture.input_size();
  const auto tiles = geometry.frames > 1 && !picture.is_video() ? fmt::format(" in {} tiles", geometry.frames) : "";
  const size_t frames = picture.file ? picture.numbers.size() : picture.frames.size();
  const auto kind = picture.is_video()   ? counted(frames, "frame") + " of a video from"
                    : geometry.is_crop() ? describe_crop(*geometry.steps.back().from)
                                         : std::string("image");
  return fmt::format("{} {}: {} x {} pixels, read as {} x {}{}, {}", kind, media::describe_source(picture.source),
                     geometry.source.width, geometry.source.height, seen.width, seen.height, tiles,
                     counted(geometry.tokens, "token"));
}

std::span<const Picture> decoded_together(const std::vector<Picture>& pictures, size_t first) {
  auto belongs = [&](const Picture& next) {
    return next.geometry.is_crop() ? next.source == pictures[first].source
                                   : pictures[first].file && next.file == pictures[first].file;
  };
  size_t end = first + 1;
  while (end < pictures.size() && belongs(pictures[end])) ++end;
  return std::span(pictures).subspan(first, end - first);
}

size_t patch_row_values(std::span<const Picture> pictures) {
  int64_t values = 0;
  for (const auto& picture : pictures) values += picture.geometry.patches() * picture.config->processor.row_size();
  return static_cast<size_t>(values);
}

bool have_equal_rows(std::span<const Picture> a, std::span<const Picture> b) {
  return std::ranges::equal(a, b, [](const Picture& one, const Picture& other) {
    return one.geometry == other.geometry && one.config == other.config && one.numbers == other.numbers &&
           one.source == other.source && one.frames == other.frames;
  });
}

std::optional<Error> fill_patch_rows(std::span<const Picture> pictures, std::span<float> rows) {
  const auto& picture = pictures.front();
  auto processor = picture.config->processor;
  const size_t all = patch_row_values(pictures), frames = static_cast<size_t>(processor.temporal_patch_size);
  const bool one_frame = !picture.is_video() && rows.size() * frames == all;
  HONE_CHECK(one_frame || rows.size() == all, "{} floats for rows of {}", rows.size(), all);
  if (one_frame) processor.temporal_patch_size = 1;
  if (picture.is_video()) return fill_video_rows(pictures, rows);
  auto failed = [&](const std::string& why) { return error("image {}: {}", media::describe_source(picture.source), why); };
  auto medium = media::Medium::open(picture.source, picture.config->sources);
  if (!medium) return failed(medium.error());
  auto image = media::decode_image(medium->bytes());
  if (!image) return failed(image.error());
  if (image->size != picture.geometry.source) return failed("it was replaced during the run");
  for (const auto& part : pictures) {
    const auto own = rows.first(static_cast<size_t>(part.geometry.patches() * processor.row_size()));
    rows = rows.subspan(own.size());
    media::fill_patch_rows(rows.empty() ? std::move(*image) : *image, part.geometry, processor, own);
  }
  return std::nullopt;
}

}  // namespace hone::data
