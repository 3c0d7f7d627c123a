// Translates `accelerate launch --config_file fsdp.yaml src/train.py run.yaml` to LLaMA-Factory's train command.
#pragma once
#include <string>
#include <vector>

namespace hone::cli {

// The script's arguments, and the launcher's options as an additional one: accelerate_launch={"config_file": "fsdp.yaml", …}.
// Throws UserError if there is no script.
std::vector<std::string> unwrap_accelerate(const std::vector<std::string>& words);

}  // namespace hone::cli
