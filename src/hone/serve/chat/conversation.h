// Messages and tools of a request into a conversation. Media come inside it, or as addresses, which are fetched later where the
// server does that (fetch_media.h); no file that a request names is ever opened.
#pragma once
#include "hone/serve/chat/task.h"

namespace hone::serve {

// OpenAI's messages: roles system, developer, user, assistant, tool, function. Throws Problem naming the place,
// "messages[2].content".
data::Conversation read_messages(const Json& messages);
// {"type": "function", "function": {…}} each; `legacy` lists the functions themselves. Names are checked.
Json read_tools(const Json& tools, const std::string& where, bool legacy);
ToolChoice read_tool_choice(const Json& choice, const Json& tools);
// {"name": …, "arguments": …} as a message of its own, the way datasets hold calls.
data::Message read_call(const Json& function, const std::string& where);
// The text of a content field: a text, or a list of text parts. `media`, where given, gets the images, videos and audios among
// them, for each of which the text holds a tag of `media`.
std::string read_text_parts(const Json& content, const std::string& where, data::Conversation* media = nullptr);
// A conversation whose tags no text spells, so that only parts count as media.
data::Conversation empty_conversation();
// Plain values only, and none of the names the template's own variables have.
Json read_template_values(const Json& values);
bool is_function_name(const std::string& name);

}  // namespace hone::serve
