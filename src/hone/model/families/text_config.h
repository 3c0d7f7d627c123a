// The language model's part of config.json, which is nested in that of a multimodal model; otherwise all of it.
#pragma once
#include "hone/base/json.h"

namespace hone::model {

// The name of the nested config that holds the language model's, or is it; null: there is none.
inline const char* nested_text_name(const Json& hf) {
  for (const char* name : {"thinker_config", "text_config", "llm_config"})
    if (const auto nested = hf.find(name); nested != hf.end() && nested->is_object()) return name;
  return nullptr;
}

inline const Json& text_config_of(const Json& hf) {
  const char* name = nested_text_name(hf);
  return name ? text_config_of(hf[name]) : hf;
}

// Changes of that part, as changes of config.json.
inline Json nested_text_changes(const Json& hf, const Json& changes) {
  const char* name = nested_text_name(hf);
  if (!name) return changes;
  auto nested = hf[name];
  nested.update(nested_text_changes(nested, changes));
  return {{name, std::move(nested)}};
}

}  // namespace hone::model
