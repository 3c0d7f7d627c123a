// Documents made from the options table: docs/options.md, a listing, shell completion.
#pragma once
#include <string>
#include <string_view>

namespace hone::cli {

std::string options_markdown();
std::string options_text();
std::string options_json();

std::string markdown_cell(std::string_view text);  // as it is written in a table

enum class Shell { bash, zsh, fish };
std::string completion_script(Shell shell);

}  // namespace hone::cli
