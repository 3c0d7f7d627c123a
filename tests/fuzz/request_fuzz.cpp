// Bytes as the body of each request that has messages or fields: refused with a Problem, or read.
#include <cstdint>
#include <string_view>

#include "hone/serve/chat/conversation.h"
#include "hone/serve/http/api_error.h"
#include "hone/serve/schema/body.h"

namespace {

using namespace hone::serve;

void read(Endpoint endpoint, const hone::Json& body) {
  try {
    Fields fields(endpoint, body);
    if (endpoint != kChat) return;
    read_messages(fields.json("messages"));
    auto tools = fields.has("tools") ? read_tools(fields.json("tools"), "tools", false) : hone::Json::array();
    read_tool_choice(fields.json("tool_choice"), tools);
    if (fields.has("chat_template_kwargs")) read_template_values(fields.json("chat_template_kwargs"));
    fields.texts("stop", 16, 256);
    read_response_format(fields, kChat);
  } catch (const ApiError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto body = parse_body({reinterpret_cast<const char*>(data), size});
  if (!body) return 0;
  for (Endpoint endpoint : {kChat, kCompletion, kEmbedding, kMessages, kTokenize, kDetokenize, kLoadAdapter})
    read(endpoint, *body);
  return 0;
}
