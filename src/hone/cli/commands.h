// The program's commands: name, description, function.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hone/cli/options.h"

namespace hone::cli {

using CommandFunction = int (*)(const Options&);

// The words of a command that are not options.
struct Operands {
  std::string_view usage = {};  // "[file]" in the usage line
  int max = 0;
  bool is_command_line = false;  // from the first word on, everything belongs to another command
  bool passes_options = false;   // so do the options that are not the command's own, wherever they are; without a command, to sft
};

struct Command {
  std::string_view name;
  Verbs verb;
  std::string_view help;
  CommandFunction run;  // null: announced for a later version
  Operands operands = {};
  bool hidden = false;
};

std::span<const Command> all_commands();
// By the name that this front end's users type; underscores are dashes. Null when unknown.
const Command* find_command(FrontEnd front_end, std::string_view name);
std::vector<Command> shown_commands(FrontEnd front_end);  // by the names its users type
std::string nearest_command(FrontEnd front_end, std::string_view name);

FrontEnd front_end_of(std::string_view program);  // "/usr/bin/swift" → swift
bool is_megatron(std::string_view program);       // ms-swift's second program: its lines become those of swift (megatron/)
std::string_view program_name(FrontEnd front_end);

// One file each under commands/.
int train_command(const Options& options);
int infer_command(const Options& options);
int export_command(const Options& options);
int deploy_command(const Options& options);
int rollout_command(const Options& options);
int serve_tinker_command(const Options& options);
int eval_command(const Options& options);
int sample_command(const Options& options);
int app_command(const Options& options);
int bench_command(const Options& options);
int merge_lora_command(const Options& options);
int tokenize_command(const Options& options);
int render_command(const Options& options);
int preview_command(const Options& options);
int logits_command(const Options& options);
int optim_trace_command(const Options& options);
int image_trace_command(const Options& options);
int policy_trace_command(const Options& options);
int doctor_command(const Options& options);
int devices_command(const Options& options);
int download_command(const Options& options);
int models_command(const Options& options);
int scan_cache_command(const Options& options);
int docker_run_command(const Options& options);
int emulate_npu_command(const Options& options);
int ray_submit_command(const Options& options);
int options_command(const Options& options);
int completion_command(const Options& options);
int version_command(const Options& options);
int help_command(const Options& options);
int check_args_command(const Options& options);
int convert_config_command(const Options& options);
int plan_command(const Options& options);

}  // namespace hone::cli
