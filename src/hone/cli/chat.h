// A conversation in the terminal: reads a line, streams the answer, keeps the history.
#pragma once
#include <functional>
#include <string>

#include "hone/data/conversation.h"

namespace hone::cli {

// How a front end's chat looks and which words it obeys.
struct ChatStyle {
  std::string prompt, multi_line_prompt, system_prompt;
  std::string answer_prefix;  // "Assistant: "
  std::string separator;      // printed behind an answer
  std::string words;          // what can be typed beside questions: said at the start on a terminal, and by /help
};
ChatStyle swift_manner();    // <<<
ChatStyle factory_manner();  // User: / Assistant:

// The answer to `conversation`; calls `show` with each piece. An error message is shown and the turn forgotten.
using ChatReply =
    std::function<std::string(const data::Conversation& conversation, const std::function<void(std::string_view)>& show)>;

// Until "exit" or the end of input. `tools` and the system prompt of `start` stay through "clear".
int chat(const ChatStyle& manner, data::Conversation start, const ChatReply& answer);

}  // namespace hone::cli
