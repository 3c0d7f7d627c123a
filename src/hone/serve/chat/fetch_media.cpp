#include "hone/serve/chat/fetch_media.h"

#include <mutex>

#include "hone/base/log.h"
#include "hone/media/medium.h"
#include "hone/media/source_scheme.h"
#include "hone/serve/http/api_error.h"

namespace hone::serve {
namespace {

// The reason of a failed fetch goes to the server's log only: a client must not learn about the server's network.
void fetch_one(std::string& source, const ServedModel& served) {
  if (!media::is_url(source)) return;
  if (!served.fetch_media) {
    static std::once_flag has_told;
    std::call_once(has_told, [] { log::info("a request named an address; SWIFT_URL_ALLOWED_HOSTS=host,… allows fetching it"); });
    throw ApiError(400, "addresses are not fetched by this server; send the content in a data: URI", "messages", "invalid_value");
  }
  auto content = served.fetch_media(source);
  if (!content) {
    log::info("a request named {}: {}", source.substr(0, 200), content.error());
    throw ApiError(400, "an address was not fetched: its host is not one that this server contacts, or did not respond in time",
                   "messages", "invalid_value");
  }
  source = media::data_uri(*content);
}

}  // namespace

void check_media(const data::Conversation& conversation, const MediaLimits& limits) {
  const auto check = [](size_t found, std::optional<size_t> most, const char* what) {
    if (most && found > *most)
      throw ApiError(400, fmt::format("{} {}; this server takes at most {} in a request", found, what, *most), "messages",
                     "invalid_value");
  };
  check(conversation.images.size(), limits.images, "images");
  check(conversation.videos.size(), limits.videos, "videos");
  check(conversation.audios.size(), limits.audios, "audios");
}

void fetch_media(data::Conversation& conversation, const ServedModel& served) {
  for (auto* list : {&conversation.images, &conversation.videos, &conversation.audios})
    for (auto& source : *list) fetch_one(source, served);
}

}  // namespace hone::serve
