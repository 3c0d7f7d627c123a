#include "hone/serve/chat/conversation.h"
#include "hone/serve/http/api_error.h"
#include "hone/serve/openai/chat.h"

namespace hone::serve {
namespace {

void read_thinking(const Fields& fields, ChatTask& task) {
  Json values = fields.has("chat_template_kwargs") ? read_template_values(fields.json("chat_template_kwargs")) : Json::object();
  if (fields.text("reasoning_effort") == "none") values["enable_thinking"] = false;
  if (!values.empty()) task.conversation.extra["chat_template_kwargs"] = std::move(values);
}

void read_logprobs(const Fields& fields, const ServedModel& served, ChatTask& task) {
  int64_t top = fields.integer("top_logprobs", 0);
  if (top > served.max_logprobs)
    bad_value("top_logprobs", fmt::format("found {}; this server returns at most {}", top, served.max_logprobs));
  if (fields.flag("logprobs", false))
    task.sampling.logprobs = top;
  else if (top > 0)
    bad_value("top_logprobs", "requires logprobs true");
}

}  // namespace

ChatTask read_chat(const Json& body, const ServedModel& served) {
  Fields fields(kChat, body);
  ChatTask task;
  task.model = fields.text("model");
  task.user = fields.text("user");
  task.conversation = read_messages(fields.json("messages"));
  if (fields.has("modalities"))
    for (const auto& kind : fields.json("modalities"))
      if (kind == "audio") bad_value("modalities", "only text output is supported; expected [\"text\"]");
  if (fields.has("tools") && fields.has("functions")) bad_value("functions", "the older form of tools; give one of them");
  if (fields.has("tools")) task.tools = read_tools(fields.json("tools"), "tools", false);
  if (fields.has("functions")) task.tools = read_tools(fields.json("functions"), "functions", true);
  task.tool_choice = read_tool_choice(fields.json(fields.has("functions") ? "function_call" : "tool_choice"), task.tools);
  read_sampling(fields, served, task.sampling);
  read_search(fields, served, task.sampling);
  if (!fields.flag("do_sample", true)) task.sampling.temperature = 0;
  read_logprobs(fields, served, task);
  task.shape = read_response_format(fields, kChat);
  if (fields.has("max_completion_tokens"))
    task.max_tokens = fields.integer("max_completion_tokens", 0);
  else if (fields.has("max_tokens"))
    task.max_tokens = fields.integer("max_tokens", 0);
  task.n = fields.integer("n", 1);
  task.priority = fields.integer("priority", 0);
  task.separate_reasoning = fields.flag("separate_reasoning", true);
  task.single_tool_call = !fields.flag("parallel_tool_calls", true);
  task.legacy_calls = fields.has("functions");
  task.stream = read_stream(fields);
  read_thinking(fields, task);
  return task;
}

}  // namespace hone::serve
