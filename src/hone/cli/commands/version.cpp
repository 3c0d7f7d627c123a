// The version of hone and of what it runs on.
#include <torch/version.h>

#include "hone/base/version.h"
#include "hone/cli/commands.h"

namespace hone::cli {

int version_command(const Options&) {
  fmt::print("hone {} (libtorch {})\n", version(), TORCH_VERSION);
  return 0;
}

}  // namespace hone::cli
