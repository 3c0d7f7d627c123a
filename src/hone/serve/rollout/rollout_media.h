// Media of a rollout's prompts: parts, and where the trainer has put their placeholders.
#pragma once
#include "hone/data/placed_media.h"
#include "hone/engine/prompt_images.h"
#include "hone/serve/chat/request_media.h"

namespace hone::serve {

inline constexpr uint64_t kMostRolloutTokens = 1'000'000'000;

// The media of one or several prompts, as the request lists them.
struct RolloutMedia {
  data::Conversation conversation;
  std::vector<data::PlaceholderRange> spans;
};
RolloutMedia read_rollout_media(const Json& media, const std::string& where);

// Decodes the media of prompts. Refers to its arguments.
class RolloutMediaReader {
 public:
  RolloutMediaReader(const std::vector<RolloutMedia>& list, const ServedModel& served, const RequestMedia& media);
  // The images of a prompt, whose placeholders must be at the listed positions. Null: it has none.
  std::shared_ptr<const engine::PromptImages> of(uint64_t index, const std::vector<text::TokenId>& prompt);

 private:
  struct Prepared {
    data::MediaPlacement placement;
    std::shared_ptr<const engine::PromptImages> images;
    std::vector<text::TokenId> prompt;  // the first
  };
  const ServedModel& served_;
  const data::PromptDecoding& decoding_;
  std::vector<Prepared> prepared_;
};

}  // namespace hone::serve
