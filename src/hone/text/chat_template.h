// A model's own chat template: Jinja as configured by transformers, sandboxed.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hone/base/error.h"
#include "hone/base/json.h"

namespace hone::text {

// Part [begin, end) of the rendered text, in bytes, that a {% generation %} block produced.
struct GenerationSpan {
  size_t begin, end;
};

struct Rendered {
  std::string text;
  std::vector<GenerationSpan> generation_spans;
};

// Limits for a hostile or broken template.
struct TemplateLimits {
  size_t steps = 10'000'000;
  size_t depth = 200;
  size_t output_bytes = 64u << 20;
};

// The jinja2 environment: transformers' for chat templates by default.
struct TemplateSyntax {
  bool trim_blocks = true, lstrip_blocks = true, keep_trailing_newline = false;
  bool strict_undefined = false;  // printing an undefined variable is an error
};

class ChatTemplate {
 public:
  // Rejects what jinja2 rejects; the message contains the line.
  static Result<ChatTemplate> parse(std::string_view source, TemplateLimits limits = {}, TemplateSyntax syntax = {});

  // `variables` is what transformers passes: messages, tools, documents, add_generation_prompt, bos_token, eos_token, … and any
  // extra. Errors: the template's own raise_exception, undefined values, type errors, exceeded limits; each with the line.
  Result<Rendered> render(const Json& variables) const;

 private:
  struct Program;
  explicit ChatTemplate(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const Program> program_;
};

}  // namespace hone::text
