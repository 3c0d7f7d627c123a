// A conversation in the terminal: reads a line, streams the response, keeps the history.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "hone/data/conversation.h"

namespace hone::cli {

// The appearance of a front end's chat and its commands.
struct ChatStyle {
  std::string prompt, multi_line_prompt, system_prompt;
  std::string answer_prefix;            // "Assistant: "
  std::string separator;                // printed after a response
  std::string words;                    // available commands: printed at the start on a terminal, and by /help
  std::vector<std::string> media = {};  // "image", "video", "audio": each tag <image> in a line asks for a file
};
ChatStyle swift_manner();    // <<<
ChatStyle factory_manner();  // User: / Assistant:

// Generates the response to `conversation`; calls `show` with each piece, and ends early once `stops` is true. On an error, the
// message is shown and the turn dropped.
using ChatReply =
    std::function<std::string(const data::Conversation& conversation, const std::function<void(std::string_view)>& show,
                              const std::function<bool()>& stops)>;

// Runs until "exit" or the end of input. `tools` and the system prompt of `start` survive "clear".
int chat(const ChatStyle& manner, data::Conversation start, const ChatReply& answer);

}  // namespace hone::cli
