// Renders a conversation with one of the built-in named templates.
#pragma once
#include <optional>
#include <string>

#include "hone/base/json.h"

namespace hone::cli {

// "qwen2_5": a template name of ms-swift or LLaMA-Factory, not a file.
bool names_built_in_template(const std::string& name);

struct BuiltInRender {
  std::string name;
  std::string model;     // folder whose tokenizer has the special tokens; empty: <bos> and <eos> are used
  bool factory = false;  // LLaMA-Factory's template of that name rather than ms-swift's
  bool add_generation_prompt = false;
  std::optional<bool> enable_thinking;
};

// `conversation`: a list of messages or {"messages": […], "tools": […]}. A conversation that ends with a user message is rendered
// up to the start of the response, since these templates have no other end.
std::string render_built_in(const Json& conversation, const std::string& origin, const BuiltInRender& request);

}  // namespace hone::cli
