#include "hone/cli/commands.h"

#include "hone/base/edit_distance.h"

namespace hone::cli {
namespace {

constexpr Command kCommands[] = {
    {"sft", kSft, "Supervised fine-tuning of a model on conversations.", train_command},
    {"pt", kPt, "Continued pre-training on plain text.", train_command},
    {"rlhf", kRlhf, "Preference and reinforcement training.", train_command},
    {"train", kTrain, "LLaMA-Factory's training command; `stage` says which kind.", train_command},
    {"infer", kInfer, "Chat in the terminal, or batch inference over a dataset.", infer_command},
    {"deploy", kDeploy, "Server: OpenAI's and Anthropic's interfaces, and a chat page.", deploy_command},
    {"rollout", kRollout, "Rollout server: generates for a training run and follows its weights.", rollout_command},
    {"serve-tinker", kServeTinker, "Server: training and sampling for the tinker SDK, many tenants on one model.",
     serve_tinker_command},
    {"eval", kEval, "Benchmarks: accuracy by likelihood, and scores of generated answers.", eval_command},
    {"sample", kSample, "Answers to the rows of a dataset, the best kept as a dataset.", sample_command},
    {"app", kDeploy, "Chat page in the browser.", app_command},
    {"export", kExport, "Merge adapters, write a model folder.", export_command},
    {"merge-lora", kExport, "Merge an adapter into its base model.", merge_lora_command},
    {"tokenize", kTokenize, "Text to token ids and back.", tokenize_command, "[file]", 1},
    {"render", kRender, "A conversation as the model will see it.", render_command, "[file]", 1},
    {"preview", kPreview, "Rows of a dataset as a training command will see them.", preview_command, "[command line | file]",
     4096, false, true, true},
    {"bench", kBench, "Load test of a server: throughput and latency.", bench_command, "serve", 1},
    {"doctor", kDoctor, "What is installed, what is wrong, and how to fix it.", doctor_command},
    {"devices", kDevices, "Devices with memory, use and health.", devices_command},
    {"plan", kPlan, "Whether a command fits its devices, how long a step takes, and what else would do; nothing is run.",
     plan_command, "[command line | file]", 4096, false, true, true},
    {"convert-config", kConvertConfig, "The native command for a command line or file of ms-swift, LLaMA-Factory or accelerate.",
     convert_config_command, "command line | file", 4096, false, true},
    {"download", kDownload, "A model or dataset from ModelScope or Hugging Face.", download_command, "owner/name", 1},
    {"models", kCaches, "Model families hone knows, and the models in the caches.", models_command},
    {"scan-cache", kCaches, "Contents of the hubs' caches, with sizes.", scan_cache_command},
    {"docker-run", kOther, "The docker line for the devices of this machine.", docker_run_command, "[command line]", 4096, false,
     true},
    {"emulate-npu", kOther, "Run any command on emulated Ascend cards.", emulate_npu_command, "command line", 4096, false, true},
    {"ray-submit", kOther, "Start the processes of a command on a Ray cluster.", ray_submit_command,
     "processes [--address …] -- command", 4096, false, true},
    {"options", kOptions, "The full options table, or the options that contain a word.", options_command, "[word]", 1},
    {"completion", kOther, "Completion script for a shell.", completion_command, "bash|zsh|fish", 1},
    {"version", kOther, "Version of hone and of what it runs on.", version_command},
    {"help", kOther, "Help on a command, or on one of its groups of options.", help_command, "[command [group | all]]", 4},
    {"logits", kLogits, "Logits of given token ids.", logits_command, {}, 0, true},
    {"optim-trace", kOptimTrace, "Trace of an optimizer over given gradients.", optim_trace_command, {}, 0, true},
    {"image-trace", kOther, "Batches of rows with images.", image_trace_command, "file", 1, true},
    {"policy-trace", kOther, "Rewards, advantages and losses of given completions.", policy_trace_command, "file", 1, true},
    {"check-args", kOther, "Whether a command line parses.", check_args_command, "command line", 4096, true, true},
    {"web-ui", kDeploy, "Studio in the browser.", nullptr},
};

struct OtherName {
  FrontEnd front_end;
  std::string_view name, command;
};
// LLaMA-Factory's commands; the native front end has them too unless the names clash.
constexpr OtherName kOtherNames[] = {
    {FrontEnd::factory, "chat", "infer"},    {FrontEnd::factory, "api", "deploy"}, {FrontEnd::factory, "webchat", "app"},
    {FrontEnd::factory, "webui", "web-ui"},  {FrontEnd::factory, "env", "doctor"}, {FrontEnd::accelerate, "launch", "train"},
    {FrontEnd::accelerate, "env", "doctor"},
};
constexpr std::string_view kSwiftVerbs = " sft pt rlhf infer export deploy eval sample rollout merge-lora app web-ui ";
constexpr std::string_view kFactoryVerbs[] = {"train", "chat",  "api", "webchat", "export",
                                              "eval",  "webui", "env", "version", "help"};
constexpr std::string_view kAccelerateVerbs[] = {"launch", "env", "help"};

const Command* by_name(std::string_view name) {
  for (const auto& command : kCommands)
    if (command.name == name) return &command;
  return nullptr;
}

std::string dashed(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

}  // namespace

std::span<const Command> all_commands() { return kCommands; }

const Command* find_command(FrontEnd front_end, std::string_view typed) {
  auto name = dashed(typed);
  for (const auto& other : kOtherNames) {
    bool applies = other.front_end == front_end || (front_end == FrontEnd::hone && other.front_end == FrontEnd::factory);
    if (applies && other.name == name) return by_name(other.command);
  }
  return by_name(name);
}

std::vector<Command> shown_commands(FrontEnd front_end) {
  std::vector<Command> shown;
  auto add_named = [&](std::span<const std::string_view> verbs) {
    for (auto verb : verbs) shown.push_back(*find_command(front_end, verb)), shown.back().name = verb;
  };
  if (front_end == FrontEnd::factory) add_named(kFactoryVerbs);
  if (front_end == FrontEnd::accelerate) add_named(kAccelerateVerbs);
  if (!shown.empty()) return shown;
  auto is_swift = [](const Command& command) {
    return kSwiftVerbs.find(fmt::format(" {} ", command.name)) != std::string_view::npos || command.verb == kOther ||
           command.verb == kDoctor;
  };
  for (const auto& command : kCommands)
    if (!command.hidden && (front_end == FrontEnd::hone || is_swift(command))) shown.push_back(command);
  return shown;
}

std::string nearest_command(FrontEnd front_end, std::string_view typed) {
  std::vector<std::string_view> names;
  for (const auto& command : kCommands)
    if (!command.hidden) names.push_back(command.name);
  return std::string(nearest_word(dashed(typed), names));
}

bool is_megatron(std::string_view program) { return program.substr(program.find_last_of('/') + 1) == "megatron"; }

FrontEnd front_end_of(std::string_view program) {
  auto name = program.substr(program.find_last_of('/') + 1);
  if (name == "swift" || is_megatron(program)) return FrontEnd::swift;
  if (name == "llamafactory-cli" || name == "lmf") return FrontEnd::factory;
  return name == "accelerate" ? FrontEnd::accelerate : FrontEnd::hone;
}

std::string_view program_name(FrontEnd front_end) {
  switch (front_end) {
    case FrontEnd::hone:
      return "hone";
    case FrontEnd::swift:
      return "swift";
    case FrontEnd::factory:
      return "llamafactory-cli";
    case FrontEnd::accelerate:
      return "accelerate";
  }
  return "hone";
}

}  // namespace hone::cli
