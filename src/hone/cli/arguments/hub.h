// The options of table/hub.cpp as typed fields (arg.h).
#pragma once
#include "hone/cli/arguments/arg.h"

namespace hone::cli {

// Where models and datasets are found, and where results are sent.
struct HubArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<bool> is_dataset{*this, "dataset"};
  Arg<std::string> download_mode{*this, "download_mode"};
  Arg<std::string> model_revision{*this, "model_revision"};
  Arg<bool> use_hf{*this, "use_hf"};
  Arg<std::string> hub_token{*this, "hub_token"};
  Arg<std::string> cache_dir{*this, "cache_dir"};
  Arg<std::string> adapter_folder{*this, "adapter_folder"};
  Arg<std::string> local_dir{*this, "local_dir"};
  Arg<std::vector<std::string>> include{*this, "include"};
  Arg<std::vector<std::string>> exclude{*this, "exclude"};
  Arg<bool> push_to_hub{*this, "push_to_hub"};
  Arg<std::string> hub_model_id{*this, "hub_model_id"};
  Arg<std::string> hub_strategy{*this, "hub_strategy"};
  Arg<bool> hub_private_repo{*this, "hub_private_repo"};
  Arg<bool> hub_always_push{*this, "hub_always_push"};
  Arg<std::string> hub_revision{*this, "hub_revision"};
  Arg<std::string> commit_message{*this, "commit_message"};
};

}  // namespace hone::cli
