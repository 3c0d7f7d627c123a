// ms-swift's view of a conversation: alternating user-or-tool and assistant turns, calls and results already rendered as text.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/data/conversation.h"
#include "hone/text/templates/agent_format.h"

namespace hone::data {

// One assistant message; consecutive ones stay separate, since each has its own loss settings.
struct ResponsePart {
  std::string text;
  std::optional<bool> loss;
  std::optional<double> loss_scale;
};

struct Turn {
  enum class Role { user, assistant, tool };
  Role role;
  std::string text;                    // user
  std::vector<ResponsePart> response;  // assistant; empty for a generation prompt
  text::TemplateSlots results;         // tool
};

struct Turns {
  std::vector<Turn> turns;
  std::optional<std::string> system;
  std::vector<Json> tools;
  // Row settings that override those of the command.
  std::optional<bool> enable_thinking, preserve_thinking;
  std::optional<std::string> response_prefix;

  int64_t last_user() const;  // index of the last user or tool turn, -1 when none
};

// Throws text::FormatError for an invalid order. `agent` may be null if no message needs it.
Turns make_turns(const Conversation& conversation, const text::SwiftTemplate& chat_template, const text::AgentFormat* agent);

}  // namespace hone::data
