// `accelerate launch --config_file fsdp.yaml src/train.py run.yaml` in terms of LLaMA-Factory's train command.
#pragma once
#include <string>
#include <vector>

namespace hone::cli {

// Drops the launcher's own options and the script; what stays are the script's words. Throws UserError when there is no script.
std::vector<std::string> unwrap_accelerate(const std::vector<std::string>& words);

}  // namespace hone::cli
