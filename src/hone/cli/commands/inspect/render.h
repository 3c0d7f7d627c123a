// hone render: a conversation through a chat template, as text.
#pragma once
#include <optional>
#include <string>

namespace hone::cli {

struct RenderOptions {
  std::string model;          // folder with tokenizer_config.json or chat_template.jinja
  std::string chat_template;  // a Jinja file or the name of a built-in one, instead of the model's own
  bool factory = false;       // names are LLaMA-Factory's first
  bool add_generation_prompt = false;
  std::optional<bool> enable_thinking;
  std::string vars;             // JSON file of further variables
  std::string file;             // conversation; empty: standard input
  std::string format = "text";  // text, or jsonl: one request a line in, one result a line out
};

int render_command(const RenderOptions& options);

}  // namespace hone::cli
