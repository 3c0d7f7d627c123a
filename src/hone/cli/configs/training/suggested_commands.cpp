#include "hone/cli/configs/training/suggested_commands.h"

#include "hone/base/strings/shell_quoted.h"
#include "hone/cli/commands.h"
#include "hone/train/reports/run_summary.h"

namespace hone::cli {
namespace {

std::string resume_command(const train::RunResult& stopped) {
  if (stopped.layout == train::Layout::factory && !stopped.overwrites) return "the same command again continues from there";
  return fmt::format("the same command with --resume_from_checkpoint {}", shell_quoted(stopped.state.last_model_checkpoint));
}

// Reward models are used in PPO.
std::string next_command(const std::string& program, const train::RunResult& finished, const std::string& weights) {
  if (!finished.complete()) return resume_command(finished);
  const bool factory = finished.layout == train::Layout::factory;
  if (finished.scores && factory)
    return fmt::format("stage: ppo with reward_model: {} and reward_model_type: {}", weights, finished.adapter ? "lora" : "full");
  const auto model = shell_quoted(finished.adapter ? finished.model_folder.string() : weights), quoted = shell_quoted(weights);
  if (finished.scores)
    return fmt::format("{} rlhf --rlhf_type ppo --reward_model {}{}", program, model,
                       finished.adapter ? " --reward_adapters " + quoted : "");
  if (factory)
    return fmt::format("{} chat --model_name_or_path {}{}", program, model,
                       finished.adapter ? " --adapter_name_or_path " + quoted : "");
  return fmt::format("{} infer {} {}", program, finished.adapter ? "--adapters" : "--model", quoted);
}

}  // namespace

train::SuggestedCommands suggested_commands(FrontEnd front_end) {
  const bool launched = front_end == FrontEnd::accelerate;  // accelerate has no command to chat with the result
  const std::string program(program_name(launched ? FrontEnd::factory : front_end));
  return {.next = [program](const train::RunResult& finished,
                            const std::string& weights) { return next_command(program, finished, weights); },
          .merge =
              [program](const fs::path& checkpoint) {
                return fmt::format("{} export --adapters {} --merge_lora true", program, shell_quoted(checkpoint.string()));
              }};
}

}  // namespace hone::cli
