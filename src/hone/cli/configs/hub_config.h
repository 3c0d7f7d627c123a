// From options to the push settings.
#pragma once
#include <filesystem>
#include <optional>

#include "hone/cli/options.h"
#include "hone/train/checkpoints/hub_push.h"

namespace hone::cli {

// None without --push_to_hub. Throws UserError before the work if a push could not succeed.
std::optional<train::HubPushConfig> push_config(const Options& options, const std::filesystem::path& output);

// The push of one folder by export, with --commit_message.
void push_folder(const Options& options, const std::filesystem::path& folder);
bool pushes_export(const Options& options);

}  // namespace hone::cli
