// Documents made from the options table: docs/options.md, a listing, shell completion.
#pragma once
#include <string>

namespace hone::cli {

std::string options_markdown();
std::string options_text();
std::string options_json();

enum class Shell { bash, zsh, fish };
std::string completion_script(Shell shell);

}  // namespace hone::cli
