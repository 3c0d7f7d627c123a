// `accelerate launch --config_file fsdp.yaml src/train.py run.yaml` in terms of LLaMA-Factory's train command.
#pragma once
#include <string>
#include <vector>

namespace hone::cli {

// The script's arguments, and the launcher's own options as one more of them: accelerate_launch={"config_file": "fsdp.yaml",
// …}. Throws UserError when there is no script.
std::vector<std::string> unwrap_accelerate(const std::vector<std::string>& words);

}  // namespace hone::cli
