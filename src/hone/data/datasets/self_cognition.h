// The built-in dataset that teaches a model its name and its author.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hone/data/readers/row_reader.h"

namespace hone::data {

struct SelfCognitionRow {
  const char *language, *query, *response;
};
const std::vector<SelfCognitionRow>& self_cognition_rows();

// "self-cognition", "swift/self-cognition", "modelscope/self-cognition", and LLaMA-Factory's "identity".
bool is_self_cognition(const std::string& word);

// Names and authors are [zh, en], one for both, or empty (the placeholders stay, with a warning). The variant is "default",
// "qwen3" (" /no_think" after questions, an empty think block before responses) or "empty_think" (the latter only).
std::unique_ptr<RowReader> open_self_cognition(const std::vector<std::string>& name, const std::vector<std::string>& author,
                                               const std::string& variant = "default");

}  // namespace hone::data
