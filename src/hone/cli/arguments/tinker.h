// Options of the server for the tinker SDK, in addition to those of every server.
#pragma once
#include "hone/cli/arguments/arg.h"

namespace hone::cli {

struct TinkerArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<std::vector<std::string>> worker_urls{*this, "worker_urls"};
  Arg<bool> tinker{*this, "tinker"};
  Arg<std::string> tinker_dir{*this, "tinker_dir"};
  Arg<std::string> dataset_root{*this, "dataset_root"};
  Arg<std::string> api_keys{*this, "api_keys"};
  Arg<int64_t> max_rank{*this, "max_rank"};
  Arg<double> max_resident_gb{*this, "max_resident_gb"};
  Arg<double> max_checkpoint_gb{*this, "max_checkpoint_gb"};
  Arg<int64_t> train_batch_tokens{*this, "train_batch_tokens"};
};

}  // namespace hone::cli
