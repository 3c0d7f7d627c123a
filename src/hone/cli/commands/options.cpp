// The options table for people (text), for the documentation (markdown) and for programs (JSON).
#include "hone/cli/commands.h"
#include "hone/cli/document.h"

namespace hone::cli {

int options_command(const Options& options) {
  auto format = options.text("format");
  fmt::print("{}", format == "markdown" ? options_markdown() : format == "json" ? options_json() : options_text());
  return 0;
}

}  // namespace hone::cli
