// Translates commands of LLaMA-Factory's second generation (USE_V1=1): sft, dpo, rm, merge and chat, with its own keys, to train,
// export and chat with those of the first.
#pragma once
#include <string>
#include <vector>

#include "hone/cli/parsing/config_entries.h"

namespace hone::cli {

bool asks_for_v1(const SystemAccess& system);

// Arguments after the program's name, the command first; others than the commands above are returned as they are. `processes` is
// the world size. Throws UserError(usage) naming an unsupported setting.
std::vector<std::string> unwrap_v1(const std::vector<std::string>& words, const SystemAccess& system, int processes);

}  // namespace hone::cli
