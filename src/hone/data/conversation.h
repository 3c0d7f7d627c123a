// The common form of all row formats: messages in canonical roles, and their attachments.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hone/data/row.h"

namespace hone::data {

// Roles: system, user, assistant, tool_call (an assistant's call, content = JSON text), tool (a result).
struct Message {
  std::string role, content;
  std::optional<bool> loss;          // false masks a response, true forces it
  std::optional<double> loss_scale;  // weight of a response's tokens
  Json extra;                        // reasoning_content, tool_calls … as given; null when none
};

// Their roles and contents.
inline Json messages_json(const std::vector<Message>& messages) {
  Json list = Json::array();
  for (const auto& message : messages) list.push_back({{"role", message.role}, {"content", message.content}});
  return list;
}

struct Sample;

// The placeholder of a medium in the text.
struct MediaTags {
  std::string image = "<image>", video = "<video>", audio = "<audio>";
};

struct Conversation {
  std::vector<Message> messages;
  std::vector<Message> rejected;  // preference data: the full alternative conversation; empty otherwise
  std::string tools;              // JSON text of a list of function specs; empty when none
  std::optional<bool> label;      // KTO
  std::vector<std::string> images, videos, audios;
  MediaTags tags;
  Json extra;               // other columns, kept for rewards and channels; an object or null
  bool plain_text = false;  // pre-training: messages[0].content is the whole text
  RowOrigin origin;
  std::shared_ptr<const std::vector<Sample>> encoded;  // tokens made earlier: there is nothing left to encode
};

}  // namespace hone::data
