#include "hone/cli/configs/hub_config.h"

#include "hone/cli/arguments/hub.h"
#include "hone/cli/configs/data_config.h"
#include "hone/hub/upload.h"

namespace hone::cli {
namespace {

hub::Repo repo_of(const HubArguments& args, const std::filesystem::path& output) {
  auto site = hub::config().site;
  hub::require_upload(site);
  auto path = std::filesystem::absolute(output).lexically_normal();
  auto name = args.hub_model_id.value_or("");
  if (name.empty()) name = (path.has_filename() ? path : path.parent_path()).filename().string();
  return {.site = site,
          .kind = hub::Kind::model,
          .id = hub::qualified_repo_id(site, name),
          .revision = args.hub_revision.value_or("")};
}

train::PushWhen push_moment(const std::string& strategy) {
  if (strategy == "end") return train::PushWhen::end;
  if (strategy == "checkpoint") return train::PushWhen::checkpoint;
  return strategy == "all_checkpoints" ? train::PushWhen::all_checkpoints : train::PushWhen::every_save;
}

}  // namespace

std::optional<train::HubPushConfig> push_config(const Options& options, const std::filesystem::path& output) {
  const HubArguments args(options);
  if (!args.push_to_hub) return std::nullopt;
  return train::HubPushConfig{.repo = repo_of(args, output),
                              .private_repo = *args.hub_private_repo,
                              .when = push_moment(*args.hub_strategy),
                              .always = *args.hub_always_push};
}

// LLaMA-Factory's export pushes to the hub if a repository id is given.
bool pushes_export(const Options& options) {
  const HubArguments args(options);
  return *args.push_to_hub || (uses_factory_dialect(options) && args.hub_model_id.has_value());
}

void push_folder(const Options& options, const std::filesystem::path& folder) {
  const HubArguments args(options);
  hub::UploadRequest request{.repo = repo_of(args, folder),
                             .private_repo = *args.hub_private_repo,
                             .folder = folder,
                             .files = {},
                             .path_in_repo = "",
                             .message = args.commit_message.exists() ? *args.commit_message : "Upload model"};
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_regular_file()) request.files.push_back(entry.path().filename());
  fmt::print("sent to {}\n", hub::upload(request));
}

}  // namespace hone::cli
