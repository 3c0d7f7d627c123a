// A row as a format reads it, and its messages in one text, for tests of formats.
#pragma once
#include <string>
#include <vector>

#include "hone/data/formats/format.h"

namespace hone::data {

// "role: content" lines, "role(loss=…): content" where a message carries a loss.
inline std::string shown(const std::vector<Message>& messages) {
  std::string text;
  for (const auto& message : messages) {
    text += message.role;
    if (message.loss) text += *message.loss ? "(loss)" : "(no loss)";
    if (message.loss_scale) text += fmt::format("(x{})", *message.loss_scale);
    text += ": " + message.content + "\n";
  }
  return text;
}

inline Result<Conversation> convert(const RowFormat& format, const std::string& json) {
  return format.convert(Row{Json::parse(json), RowOrigin{"f.jsonl", 7, "f"}});
}

}  // namespace hone::data
