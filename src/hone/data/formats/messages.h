// Converts lists of messages in all common forms (role/content, from/value, {human, assistant} pairs, OpenAI tool_calls and
// content parts, Anthropic blocks) to canonical messages.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "hone/data/formats/checks.h"

namespace hone::data {

struct ParsedMessages {
  std::vector<Message> messages;
  std::vector<std::string> images, videos, audios;  // found inside the contents
  // The kinds ("image") of parts without a source, as TRL writes them: their media are in a column.
  std::set<std::string> without_source;
};

// `system`: text of a separate system column, used if the list has no system message.
Result<ParsedMessages> parse_messages(const Json& list, const std::optional<std::string>& system,
                                      const SwiftFormatOptions& options, const std::string& origin);

}  // namespace hone::data
