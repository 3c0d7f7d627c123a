// The options table for people (text), for the documentation (markdown) and for programs (JSON).
#include "hone/cli/arguments/tools.h"
#include "hone/cli/commands.h"
#include "hone/cli/compat/compatibility.h"
#include "hone/cli/generate_docs.h"
#include "hone/cli/help.h"
#include "hone/serve/schema/fields.h"

namespace hone::cli {

int options_command(const Options& options) {
  if (!options.positional().empty()) {
    fmt::print("{}", matching_options(options.positional()[0]));
    return 0;
  }
  auto format = *ToolArguments(options).format;
  if (format == "compatibility") {
    fmt::print("{}", peers::compatibility_markdown());
    return 0;
  }
  if (format == "requests") {
    fmt::print("{}", serve::field_markdown());
    return 0;
  }
  fmt::print("{}", format == "markdown" ? options_markdown() : format == "json" ? options_json() : options_text());
  return 0;
}

}  // namespace hone::cli
