#include "hone/cli/configs/media_config.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>

#include "hone/cli/arguments/model.h"
#include "hone/cli/configs/data_config.h"
#include "hone/hub/access.h"

namespace hone::cli {
namespace {

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
  if (auto seconds = number_in("SWIFT_TIMEOUT")) limits.total_timeout = std::chrono::seconds(std::min<int64_t>(*seconds, 86400));
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

}  // namespace

// ms-swift's environment variables; limits in tokens take precedence over pixels.
data::PictureOptions picture_options(const Options& options) {
  const ModelArguments args(options);
  data::PictureOptions pictures;
  read_fetching(pictures.sources);
  const bool has_limit = args.max_pixels.has_value();
  pictures.audio_in_video = *args.use_audio_in_video;
  if (*args.video_positions == "4.57") pictures.video_positions = data::VideoPositions::transformers_4;
  if (uses_factory_dialect(options)) {
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

hub::FetchBytes request_media_fetcher() {
  const char* listed = std::getenv("SWIFT_URL_ALLOWED_HOSTS");
  if (!listed || !*listed) return nullptr;
  auto limits = fetch_limits({.most_bytes = size_t{64} << 20, .total_timeout = std::chrono::seconds(5)});
  const std::string_view text = listed;
  for (size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find(',', begin), text.size());
    auto host = text.substr(begin, end - begin);
    while (host.starts_with(' ')) host.remove_prefix(1);
    while (host.ends_with(' ')) host.remove_suffix(1);
    if (!host.empty()) limits.hosts.emplace_back(host);
  }
  if (std::ranges::count(limits.hosts, "*") > 0) limits.hosts.clear();
  return [limits](const std::string& url, const std::function<bool()>& is_cancelled) {
    return hub::fetch_bytes(url, limits, is_cancelled);
  };
}

}  // namespace hone::cli
