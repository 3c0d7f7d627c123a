// The escapes of a Python string literal, as jinja2 reads them.
#pragma once
#include <string>
#include <string_view>

namespace hone::text::jinja {

// `body` is the text between the quotes. Throws TemplateFailure on a broken escape.
std::string unescape_string_literal(std::string_view body, int line);

}  // namespace hone::text::jinja
