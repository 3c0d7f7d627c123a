#include "hone/serve/chat/request_media.h"

#include <mutex>

#include "hone/base/log.h"
#include "hone/data/videos/videos.h"
#include "hone/media/source_scheme.h"
#include "hone/serve/http/api_error.h"

namespace hone::serve {
namespace {

constexpr size_t kMostAddresses = 128;  // of a conversation: each is a download

void check_count(size_t found, std::optional<size_t> most, const char* what) {
  if (most && found > *most)
    throw ApiError(400, fmt::format("{} {}; this server takes at most {} in a request", found, what, *most), "messages",
                   "invalid_value");
}

// The frames of a list that has URLs; else none.
std::vector<std::string> frames_with_urls(const std::string& source) {
  if (!source.starts_with('[') || source.find("\"http") == source.npos) return {};
  auto frames = data::listed_frames(source);
  return frames ? std::move(*frames) : std::vector<std::string>();
}

void require_fetching(const ServedModel& served) {
  if (served.fetch_media) return;
  static std::once_flag has_told;
  std::call_once(has_told, [] { log::info("a request named an address; SWIFT_URL_ALLOWED_HOSTS=host,… allows fetching it"); });
  throw ApiError(400, "addresses are not fetched by this server; send the content in a data: URI", "messages", "invalid_value");
}

}  // namespace

void MediaNeeds::add(const data::Conversation& conversation, const ServedModel& served) {
  check_count(conversation.images.size(), served.media_limits.images, "images");
  check_count(conversation.videos.size(), served.media_limits.videos, "videos");
  check_count(conversation.audios.size(), served.media_limits.audios, "audios");
  size_t found = 0;
  const auto add_url = [&](const std::string& source) {
    if (!media::is_url(source)) return;
    require_fetching(served);
    if (++found > kMostAddresses)
      throw ApiError(400, fmt::format("more than {} addresses in a request", kMostAddresses), "messages", "invalid_value");
    if (std::ranges::find(urls, source) == urls.end()) urls.push_back(source);
  };
  for (const auto* list : {&conversation.images, &conversation.videos, &conversation.audios})
    for (const auto& source : *list) {
      any = true;
      add_url(source);
      std::ranges::for_each(frames_with_urls(source), add_url);
    }
}

data::Conversation RequestMedia::with_content(data::Conversation conversation) const {
  if (fetched.empty()) return conversation;
  const auto insert = [&](std::string& source) {
    if (const auto found = fetched.find(source); found != fetched.end()) source = found->second;
  };
  for (auto* list : {&conversation.images, &conversation.videos, &conversation.audios})
    for (auto& source : *list) {
      insert(source);
      auto frames = frames_with_urls(source);
      std::ranges::for_each(frames, insert);
      if (!frames.empty()) source = dump(Json(frames));
    }
  return conversation;
}

}  // namespace hone::serve
