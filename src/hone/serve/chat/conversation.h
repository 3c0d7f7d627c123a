// Converts messages and tools of a request to a conversation. Media (media_parts.h) are inline, or URLs, which are fetched later
// if enabled (fetch_media.h); files named by a request are never opened.
#pragma once
#include "hone/serve/chat/task.h"

namespace hone::serve {

// OpenAI's messages: roles system, developer, user, assistant, tool, function. Throws ApiError naming the position,
// "messages[2].content".
data::Conversation read_messages(const Json& messages);
// {"type": "function", "function": {…}} each; `legacy` lists the functions themselves. Names are checked.
Json read_tools(const Json& tools, const std::string& where, bool legacy);
ToolChoice read_tool_choice(const Json& choice, const Json& tools);
// {"name": …, "arguments": …} as a separate message, as in datasets.
data::Message read_call(const Json& function, const std::string& where);
// The text of a content field: a string, or a list of text parts. `media`, if given, receives images, videos and audio, each
// represented by a tag in the text.
std::string read_text_parts(const Json& content, const std::string& where, data::Conversation* media = nullptr);
std::string read_text_part(const Json& part, const std::string& where, data::Conversation* media);
// A conversation in which text cannot spell tags, so that only parts count as media.
data::Conversation empty_conversation();
// Plain values only, and none of the template's own variable names.
Json read_template_values(const Json& values);
bool is_function_name(const std::string& name);

}  // namespace hone::serve
