// The options of table/output.cpp as typed fields (arg.h).
#pragma once
#include "hone/cli/arguments/arg.h"

namespace hone::cli {

// Where a run writes, and when it logs and saves.
struct OutputArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<std::string> output_dir{*this, "output_dir"};
  Arg<int64_t> max_shard_size{*this, "max_shard_size"};
  Arg<bool> add_version{*this, "add_version"};
  Arg<bool> overwrite_output_dir{*this, "overwrite_output_dir"};
  Arg<double> logging_steps{*this, "logging_steps"};
  Arg<bool> logging_first_step{*this, "logging_first_step"};
  Arg<std::string> logging_strategy{*this, "logging_strategy"};
  Arg<std::string> logging_dir{*this, "logging_dir"};
  Arg<std::string> save_strategy{*this, "save_strategy"};
  Arg<double> save_steps{*this, "save_steps"};
  Arg<int64_t> save_total_limit{*this, "save_total_limit"};
  Arg<bool> save_only_model{*this, "save_only_model"};
  Arg<bool> save_on_each_node{*this, "save_on_each_node"};
  Arg<bool> create_checkpoint_symlink{*this, "create_checkpoint_symlink"};
  Arg<bool> plot_loss{*this, "plot_loss"};
  Arg<bool> disable_tqdm{*this, "disable_tqdm"};
  Arg<std::string> include_num_input_tokens_seen{*this, "include_num_input_tokens_seen"};
  Arg<bool> include_tokens_per_second{*this, "include_tokens_per_second"};
  Arg<bool> include_effective_tokens_per_second{*this, "include_effective_tokens_per_second"};
  Arg<std::vector<std::string>> callbacks{*this, "callbacks"};
};

// Where a run is reported: trackers and messages.
struct TrackerArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<std::vector<std::string>> report_to{*this, "report_to"};
  Arg<std::string> run_name{*this, "run_name"};
  Arg<std::string> project{*this, "project"};
  Arg<bool> use_swanlab{*this, "use_swanlab"};
  Arg<std::string> swanlab_project{*this, "swanlab_project"};
  Arg<std::string> swanlab_token{*this, "swanlab_token"};
  Arg<std::string> swanlab_workspace{*this, "swanlab_workspace"};
  Arg<std::string> swanlab_exp_name{*this, "swanlab_exp_name"};
  Arg<std::string> swanlab_mode{*this, "swanlab_mode"};
  Arg<std::string> swanlab_logdir{*this, "swanlab_logdir"};
  Arg<std::string> swanlab_lark_webhook_url{*this, "swanlab_lark_webhook_url"};
  Arg<std::string> swanlab_lark_secret{*this, "swanlab_lark_secret"};
  Arg<std::string> swanlab_notification_method{*this, "swanlab_notification_method"};
  Arg<std::string> swanlab_webhook_url{*this, "swanlab_webhook_url"};
  Arg<std::string> swanlab_secret{*this, "swanlab_secret"};
  Arg<std::string> swanlab_sender_email{*this, "swanlab_sender_email"};
  Arg<std::string> swanlab_receiver_email{*this, "swanlab_receiver_email"};
  Arg<std::string> swanlab_smtp_server{*this, "swanlab_smtp_server"};
  Arg<int64_t> swanlab_smtp_port{*this, "swanlab_smtp_port"};
  Arg<std::string> swanlab_email_language{*this, "swanlab_email_language"};
};

// Profiler settings.
struct ProfilerArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<bool> profiler_record_shapes{*this, "profiler_record_shapes"};
  Arg<bool> profiler_profile_memory{*this, "profiler_profile_memory"};
  Arg<bool> profiler_with_stack{*this, "profiler_with_stack"};
  Arg<bool> enable_torch_profiler{*this, "enable_torch_profiler"};
  Arg<std::string> profiler_output_dir{*this, "profiler_output_dir"};
  Arg<int64_t> profiler_wait_steps{*this, "profiler_wait_steps"};
  Arg<int64_t> profiler_warmup_steps{*this, "profiler_warmup_steps"};
  Arg<int64_t> profiler_active_steps{*this, "profiler_active_steps"};
  Arg<int64_t> profiler_repeat{*this, "profiler_repeat"};
  Arg<std::vector<std::string>> profile_modules{*this, "profile_modules"};
};

}  // namespace hone::cli
