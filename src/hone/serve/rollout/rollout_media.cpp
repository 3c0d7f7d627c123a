#include "hone/serve/rollout/rollout_media.h"

#include <algorithm>

#include "hone/serve/chat/conversation.h"
#include "hone/serve/chat/length.h"
#include "hone/serve/http/api_error.h"
#include "hone/serve/schema/fields.h"

namespace hone::serve {

RolloutMedia read_rollout_media(const Json& media, const std::string& where) {
  if (!media.is_object() || media.size() != 2 || !media.contains("spans") || !media.contains("parts") ||
      !media["parts"].is_array())
    bad_value(where, "expected an object with parts and spans");
  RolloutMedia found{empty_conversation(), {}};
  found.conversation.messages.push_back(
      {.role = "user", .content = read_text_parts(media["parts"], where + ".parts", &found.conversation)});
  const auto& spans = media["spans"];
  const auto is_index = [](const Json& number) {
    return number.is_number_unsigned() && number.get<uint64_t>() < kMostRolloutTokens;
  };
  if (!spans.is_array()) bad_value(where + ".spans", "expected a list of pairs of token indices");
  for (const auto& span : spans) {
    if (!span.is_array() || span.size() != 2 || !is_index(span[0]) || !is_index(span[1]) || span[0] >= span[1])
      bad_value(where + ".spans", "expected a list of pairs of token indices, each from its first to after its last");
    found.spans.emplace_back(span[0].get<size_t>(), span[1].get<size_t>());
  }
  return found;
}

RolloutMediaReader::RolloutMediaReader(const std::vector<RolloutMedia>& list, const ServedModel& served,
                                       const RequestMedia& media)
    : served_(served), decoding_(media.decoding) {
  for (const auto& one : list)
    prepared_.push_back({{data::media_sources(media.with_content(one.conversation)), one.spans}, nullptr, {}});
}

std::shared_ptr<const engine::PromptImages> RolloutMediaReader::of(uint64_t index, const std::vector<text::TokenId>& prompt) {
  if (index >= prepared_.size()) bad_value("media_each", fmt::format("found {} for a list of {} media", index, prepared_.size()));
  auto& prepared = prepared_[index];
  if (prepared.placement.empty()) return nullptr;
  if (prepared.images) {
    for (const auto& [begin, end] : prepared.placement.spans)
      if (end > prompt.size() ||
          !std::equal(prompt.begin() + static_cast<ptrdiff_t>(begin), prompt.begin() + static_cast<ptrdiff_t>(end),
                      prepared.prompt.begin() + static_cast<ptrdiff_t>(begin)))
        bad_value("media_each", "prompts with the same media have other placeholders");
    return prepared.images;
  }
  if (static_cast<int64_t>(prompt.size()) >= served_.max_model_len)  // before anything is decoded
    context_exceeded(served_, std::to_string(prompt.size()), "prompts");
  const auto where = fmt::format("media[{}]", index);
  auto placed = data::place_media(*served_.encoder, prompt, prepared.placement);
  if (!placed) bad_value(where, placed.error() + "; start the server with the run's settings of media, as MAX_PIXELS and FPS");
  // As in training, a medium that cannot be decoded is blank.
  data::Sample sample;
  sample.ids = prompt;
  sample.pictures = std::move(placed->pictures);
  sample.sounds = std::move(placed->sounds);
  sample.origin.file = where;
  auto batch = data::prompt_batch_of(std::move(sample), decoding_);
  if (decoding_.is_cancelled()) throw ApiError(499, "the client disconnected");
  prepared.images = engine::PromptImages::of(std::move(batch));
  prepared.prompt = prompt;
  return prepared.images;
}

}  // namespace hone::serve
