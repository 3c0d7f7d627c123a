// A conversation through one of the templates that hone knows by name, as text.
#pragma once
#include <optional>
#include <string>

#include "hone/base/json.h"

namespace hone::cli {

// "qwen2_5": a name ms-swift's and LLaMA-Factory's users know, and no file.
bool names_built_in_template(const std::string& name);

struct BuiltInRender {
  std::string name;
  std::string model;     // folder whose tokenizer has the special tokens; empty: <bos> and <eos> are used
  bool factory = false;  // LLaMA-Factory's template of that name rather than ms-swift's
  bool add_generation_prompt = false;
  std::optional<bool> enable_thinking;
};

// `conversation`: a list of messages or {"messages": […], "tools": […]}. A conversation that ends with a user's turn is rendered
// up to where the answer begins, as these templates have no other end.
std::string render_built_in(const Json& conversation, const std::string& origin, const BuiltInRender& request);

}  // namespace hone::cli
