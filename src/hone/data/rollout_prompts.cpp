#include "hone/data/rollout_prompts.h"

#include <algorithm>

#include "hone/data/row_report.h"

namespace hone::data {
namespace {

// Stands for the response. Its first token may merge with the text that the template writes before it.
constexpr const char* kStandIn = "the answer stands here";

}  // namespace

Result<RolloutPrompt> encode_rollout_prompt(const Encoder& encoder, Conversation& row, int64_t most_tokens) {
  auto& messages = row.messages;
  while (!messages.empty() && (messages.back().role == "assistant" || messages.back().role == "tool_call")) messages.pop_back();
  if (messages.empty()) return row_error(RowProblem::order, row.origin.str(), "there is no prompt before the response");
  std::vector<Picture> pictures;
  std::vector<Sound> sounds;
  auto ids = encoder.encode_prompt(row, &pictures, &sounds);
  if (!ids) return Error{ids.error()};
  const auto& config = encoder.config();
  auto length = static_cast<int64_t>(ids->size());
  if (config.max_length > 0 && length > config.max_length) {
    if (config.truncation != Truncation::left || !pictures.empty() || !sounds.empty())
      return row_error(RowProblem::too_long, row.origin.str(),
                       fmt::format("a prompt of {} tokens; max_length is {}", length, config.max_length));
    ids->erase(ids->begin(), ids->end() - config.max_length);
    length = config.max_length;
  }
  if (length > most_tokens)
    return row_error(RowProblem::too_long, row.origin.str(),
                     fmt::format("a prompt of {} tokens; after {} there is no room for a completion", length, most_tokens));
  return RolloutPrompt{std::move(*ids), std::move(pictures), std::move(sounds)};
}

Result<EncodedReplies> encode_replies(const Encoder& encoder, const Conversation& question, const std::vector<Message>& replies,
                                      const std::vector<std::string>& images) {
  Conversation dialog = question;
  dialog.origin = {};  // the text of a reply must not name files that are read: <img>path</img>
  dialog.messages.push_back({.role = "assistant", .content = kStandIn});
  dialog.messages.insert(dialog.messages.end(), replies.begin(), replies.end());
  dialog.images.insert(dialog.images.end(), images.begin(), images.end());
  PlacedMedia media;
  auto ids = encoder.encode_prompt(dialog, &media.pictures, &media.sounds);
  if (!ids) return Error{fmt::format("{}: {}", question.origin.str(), ids.error())};
  auto stand_in = encoder.tokenizer().encode(kStandIn);
  stand_in.erase(stand_in.begin());
  const auto found = std::find_end(ids->begin(), ids->end(), stand_in.begin(), stand_in.end());
  if (stand_in.empty() || found == ids->end())
    return row_error(RowProblem::order, question.origin.str(),
                     "the chat template does not show a response as it is, so that no turn can follow it");
  const auto first = found + static_cast<ptrdiff_t>(stand_in.size());
  const auto begin = static_cast<size_t>(first - ids->begin());
  const auto is_earlier = [begin](const auto& medium) { return medium.first < begin; };
  std::erase_if(media.pictures, is_earlier);
  std::erase_if(media.sounds, is_earlier);
  return EncodedReplies{{first, ids->end()}, moved(std::move(media), -static_cast<ptrdiff_t>(begin))};
}

}  // namespace hone::data
