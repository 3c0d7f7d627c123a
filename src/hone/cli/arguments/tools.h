// The options of table/tools.cpp as typed fields (arg.h).
#pragma once
#include "hone/cli/arguments/arg.h"

namespace hone::cli {

// Commands that inspect: tokenize, render, preview, logits, doctor, devices, plan.
struct ToolArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<std::string> format{*this, "format"};
  Arg<bool> decode{*this, "decode"};
  Arg<bool> lines{*this, "lines"};
  Arg<bool> special_tokens{*this, "special_tokens"};
  Arg<bool> add_generation_prompt{*this, "add_generation_prompt"};
  Arg<std::string> vars{*this, "vars"};
  Arg<int64_t> rows{*this, "rows"};
  Arg<int64_t> scan{*this, "scan"};
  Arg<bool> ids{*this, "ids"};
  Arg<std::string> input{*this, "input"};
  Arg<std::string> output{*this, "output"};
  Arg<bool> grads{*this, "grads"};
  Arg<bool> recompute{*this, "recompute"};
  Arg<bool> cached{*this, "cached"};
  Arg<std::string> new_adapter{*this, "new_adapter"};
  Arg<std::string> save_adapter{*this, "save_adapter"};
  Arg<std::string> config{*this, "config"};
  Arg<bool> env{*this, "env"};
  Arg<bool> network{*this, "network"};
  Arg<std::string> show{*this, "show"};
  Arg<std::string> target_device{*this, "target_device"};
  Arg<double> tokens_per_second{*this, "tokens_per_second"};
  Arg<double> link_gb_per_s{*this, "link_gb_per_s"};
  Arg<double> network_gb_per_s{*this, "network_gb_per_s"};
};

// Options of every command.
struct CommonArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<bool> log_on_each_node{*this, "log_on_each_node"};
  Arg<std::string> log_level_replica{*this, "log_level_replica"};
  Arg<std::string> dialect{*this, "dialect"};
  Arg<bool> show_config{*this, "show_config"};
  Arg<std::string> log_level{*this, "log_level"};
  Arg<std::string> log_format{*this, "log_format"};
};

}  // namespace hone::cli
