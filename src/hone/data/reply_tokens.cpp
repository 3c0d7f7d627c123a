#include "hone/data/reply_tokens.h"

#include <algorithm>

#include "hone/data/row_report.h"

namespace hone::data {
namespace {

// Stands for the response. Its first token may merge with the text that the template writes before it.
constexpr const char* kStandIn = "the answer stands here";

}  // namespace

Result<std::vector<text::TokenId>> encode_replies(const Encoder& encoder, const Conversation& question,
                                                  const std::vector<Message>& replies) {
  Conversation dialog = question;
  dialog.messages.push_back({.role = "assistant", .content = kStandIn});
  dialog.messages.insert(dialog.messages.end(), replies.begin(), replies.end());
  auto ids = encoder.encode_prompt(dialog);
  if (!ids) return ids;
  auto stand_in = encoder.tokenizer().encode(kStandIn);
  stand_in.erase(stand_in.begin());
  const auto found = std::find_end(ids->begin(), ids->end(), stand_in.begin(), stand_in.end());
  if (stand_in.empty() || found == ids->end())
    return row_error(RowProblem::order, question.origin.str(),
                     "the chat template does not show an answer as it is, so that no turn can follow it");
  return std::vector<text::TokenId>(found + static_cast<ptrdiff_t>(stand_in.size()), ids->end());
}

}  // namespace hone::data
