// Turns a template's source into a program, with jinja2's grammar.
#pragma once
#include <memory>
#include <string_view>

#include "hone/text/chat_template.h"
#include "hone/text/jinja/syntax/ast.h"

namespace hone::text::jinja {

// Throws TemplateFailure with the line.
std::shared_ptr<const Program> parse_template(std::string_view source, const TemplateSyntax& syntax);

}  // namespace hone::text::jinja
