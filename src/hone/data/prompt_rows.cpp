#include "hone/data/prompt_rows.h"

#include "hone/data/row_report.h"

namespace hone::data {

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

}  // namespace hone::data
