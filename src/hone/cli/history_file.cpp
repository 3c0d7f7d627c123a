#include <cstdlib>

#include "hone/cli/line_editor.h"

namespace hone::cli {

fs::path history_file() {
  if (const char* file = std::getenv("HONE_HISTORY")) return file;
  if (const char* state = std::getenv("XDG_STATE_HOME"); state && *state) return fs::path(state) / "hone" / "history";
  if (const char* home = std::getenv("HOME"); home && *home) return fs::path(home) / ".local" / "state" / "hone" / "history";
  return {};
}

}  // namespace hone::cli
