#include "hone/cli/commands.h"

#include "hone/base/strings/edit_distance.h"

namespace hone::cli {
namespace {

constexpr Operands kFile{"[file]", 1};
constexpr int kAnyNumber = 4096;
constexpr Operands kCommandLine{.usage = "command line", .max = kAnyNumber, .is_command_line = true};
constexpr Operands kExaminedCommand{
    .usage = "[command line | file]", .max = kAnyNumber, .is_command_line = true, .passes_options = true};
constexpr bool kHidden = true;

constexpr Command kCommands[] = {
    {"sft", kSft, "Supervised fine-tuning of a model on conversations.", train_command},
    {"pt", kPt, "Continued pre-training on plain text.", train_command},
    {"rlhf", kRlhf, "Preference optimization, reward models, reinforcement learning and distillation.", train_command},
    {"train", kTrain, "LLaMA-Factory's training command; `stage` selects SFT, DPO and others.", train_command},
    {"infer", kInfer, "Chat in the terminal, or batch inference over a dataset.", infer_command},
    {"deploy", kDeploy, "Server with the OpenAI and Anthropic APIs and a chat page.", deploy_command},
    {"rollout", kRollout, "Rollout server: generates completions for a training run and receives its weights.", rollout_command},
    {"serve-tinker", kServeTinker, "Server for the tinker SDK: training and sampling of many tenants on one model.",
     serve_tinker_command},
    {"eval", kEval, "Benchmarks by log-likelihood and by generation.", eval_command},
    {"sample", kSample, "Sample completions of a dataset's rows and keep the best ones as a dataset.", sample_command},
    {"app", kDeploy, "Chat page in the browser.", app_command},
    {"export", kExport, "Merge adapters, quantize, convert: writes a model folder.", export_command},
    {"merge-lora", kExport, "Merge an adapter into its base model.", merge_lora_command},
    {"tokenize", kTokenize, "Convert text to token ids and back.", tokenize_command, kFile},
    {"render", kRender, "Show a conversation as the model sees it.", render_command, kFile},
    {"preview", kPreview, "Show the rows of a dataset as a training command sees them.", preview_command, kExaminedCommand},
    {"bench", kBench, "Load test of a server: throughput and latency.", bench_command, {"serve", 1}},
    {"doctor", kDoctor, "Show what is installed, what is wrong, and how to fix it.", doctor_command},
    {"devices", kDevices, "List devices with memory, utilization and health.", devices_command},
    {"plan", kPlan, "Estimate whether a command fits its devices and how long a step takes, and list alternatives; runs nothing.",
     plan_command, kExaminedCommand},
    {"convert-config",
     kConvertConfig,
     "Print the native command for a command line or file of ms-swift, LLaMA-Factory or accelerate.",
     convert_config_command,
     {.usage = "command line | file", .max = kAnyNumber, .is_command_line = true}},
    {"download", kDownload, "Download a model or dataset from ModelScope or Hugging Face.", download_command, {"owner/name", 1}},
    {"models", kCaches, "List the supported model families and the cached models.", models_command},
    {"scan-cache", kCaches, "List the contents of the hubs' caches with sizes.", scan_cache_command},
    {"docker-run",
     kOther,
     "Print the docker command for the devices of this machine.",
     docker_run_command,
     {.usage = "[command line]", .max = kAnyNumber, .is_command_line = true}},
    {"emulate-npu", kOther, "Run any command on emulated Ascend cards.", emulate_npu_command, kCommandLine},
    {"ray-submit",
     kOther,
     "Start the processes of a command on a Ray cluster.",
     ray_submit_command,
     {.usage = "processes [--address …] -- command", .max = kAnyNumber, .is_command_line = true}},
    {"options", kOptions, "List all options, or those that contain a word.", options_command, {"[word]", 1}},
    {"completion", kOther, "Print the completion script of a shell.", completion_command, {"bash|zsh|fish", 1}},
    {"version", kOther, "Show the versions of hone and of its libraries.", version_command},
    {"help", kOther, "Show the help of a command or of one of its option groups.", help_command, {"[command [group | all]]", 4}},
    {"logits", kLogits, "Logits of given token ids.", logits_command, {}, kHidden},
    {"optim-trace", kOptimTrace, "Trace of an optimizer over given gradients.", optim_trace_command, {}, kHidden},
    {"image-trace", kOther, "Batches of rows with images.", image_trace_command, {"file", 1}, kHidden},
    {"policy-trace", kOther, "Rewards, advantages and losses of given completions.", policy_trace_command, {"file", 1}, kHidden},
    {"check-args", kOther, "Check whether a command line parses.", check_args_command, kCommandLine, kHidden},
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
