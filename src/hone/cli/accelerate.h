// Launchers of Python scripts: `accelerate launch --config_file fsdp.yaml src/train.py run.yaml` is LLaMA-Factory's train
// command, `accelerate launch --config_file fsdp.json swift/cli/sft.py --model …` is `swift sft`. torchrun and deepspeed
// likewise.
#pragma once
#include <string>
#include <vector>

#include "hone/cli/option.h"

namespace hone::cli {

struct LaunchedCommand {
  FrontEnd front_end = FrontEnd::accelerate;  // swift for ms-swift's scripts
  std::string command;
  // The script's arguments, and the launcher's options as an additional one: accelerate_launch={"config_file": "fsdp.yaml", …}.
  std::vector<std::string> words;
  std::vector<std::string> notes;  // the launcher's options without effect, one line each
};

// Arguments of the launcher. Throws UserError if there is no script.
LaunchedCommand unwrap_launcher(const std::vector<std::string>& words);

}  // namespace hone::cli
