#include "hone/text/chat_template.h"

#include "hone/text/jinja/builtins/natives.h"
#include "hone/text/jinja/json_text.h"
#include "hone/text/jinja/syntax/parser.h"

namespace hone::text {

struct ChatTemplate::Program {
  std::shared_ptr<const jinja::Program> program;
  TemplateLimits limits;
  bool strict_undefined;
};

namespace {

Error failure(const jinja::TemplateFailure& failure, int line) {
  int at = failure.line() > 0 ? failure.line() : line;
  return at > 0 ? error("line {}: {}", at, failure.what()) : error("{}", failure.what());
}

// A message's reasoning under every key that templates read, in transformers' order of keys.
Json with_reasoning_names(const Json& messages) {
  Json result = Json::array();
  for (const Json& message : messages) {
    const Json* reasoning = nullptr;
    for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
      if (reasoning == nullptr && message.is_object() && message.contains(name) && !message[name].is_null())
        reasoning = &message[name];
    }
    if (reasoning == nullptr) {
      result.push_back(message);
      continue;
    }
    Json named = {{"thinking", *reasoning}};
    for (const auto& [key, value] : message.items()) named[key] = value;
    named["reasoning_content"] = *reasoning;
    result.push_back(std::move(named));
  }
  return result;
}

bool mentions_reasoning(const Json& messages) {
  if (!messages.is_array()) return false;
  for (const Json& message : messages) {
    if (!message.is_object()) continue;
    if (message.contains("reasoning_content") || message.contains("thinking") || message.contains("reasoning")) return true;
  }
  return false;
}

jinja::Value initial_value(const std::string& name, const Json& variables) {
  auto found = variables.find(name);
  if (found != variables.end()) {
    if (name == "messages" && mentions_reasoning(*found)) return jinja::from_json(with_reasoning_names(*found));
    return jinja::from_json(*found);
  }
  // transformers always passes these three
  if (name == "tools" || name == "documents") return jinja::Value::none();
  if (name == "add_generation_prompt") return jinja::Value::boolean(false);
  return jinja::find_global(name);
}

}  // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, TemplateLimits limits, TemplateSyntax syntax) {
  try {
    return ChatTemplate(
        std::make_shared<const Program>(Program{jinja::parse_template(source, syntax), limits, syntax.strict_undefined}));
  } catch (const jinja::TemplateFailure& reason) {
    return failure(reason, 0);
  }
}

Result<Rendered> ChatTemplate::render(const Json& variables) const {
  if (!variables.is_object()) return error("template variables must be a JSON object, found {}", variables.type_name());
  const jinja::Program& program = *program_->program;
  std::vector<jinja::Value> root;
  root.reserve(program.symbols.size());
  try {
    for (const std::string& name : program.symbols) root.push_back(initial_value(name, variables));
  } catch (const jinja::TemplateFailure& reason) {
    return failure(reason, 0);
  }
  jinja::Interpreter interpreter(program_->limits, std::move(root), program.symbols, program_->strict_undefined);
  try {
    jinja::execute_block(program.body, interpreter);
  } catch (const jinja::TemplateFailure& reason) {
    return failure(reason, interpreter.line());
  } catch (const std::bad_alloc&) {
    return error("line {}: the template needs more memory than there is", interpreter.line());
  }
  return std::move(interpreter).finish();
}

}  // namespace hone::text
