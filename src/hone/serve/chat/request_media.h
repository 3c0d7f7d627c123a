// The media of a request, from what it names to what is decoded of them.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "hone/data/batches/image_batch.h"
#include "hone/data/conversation.h"
#include "hone/serve/chat/served_model.h"

namespace hone::serve {

// Work on the media of a request before the engine gets the request.
struct MediaNeeds {
  bool any = false;               // something is decoded
  std::vector<std::string> urls;  // to download, each once

  // Throws ApiError(400) if the conversation has more media than allowed, or URLs, which need allowed hosts.
  void add(const data::Conversation& conversation, const ServedModel& served);
};

// Content of URLs, as data: URIs.
using FetchedMedia = std::map<std::string, std::string>;

struct RequestMedia {
  FetchedMedia fetched;
  data::PromptDecoding decoding;

  // The conversation with content in place of URLs, those in lists of frames too.
  data::Conversation with_content(data::Conversation conversation) const;
};

}  // namespace hone::serve
