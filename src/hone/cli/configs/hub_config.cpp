#include "hone/cli/configs/hub_config.h"

#include "hone/cli/configs/data_config.h"
#include "hone/hub/upload.h"

namespace hone::cli {
namespace {

std::string given_text(const Options& options, std::string_view name) {
  return options.has_option(name) && options.has(name) ? options.text(name) : "";
}

hub::Repo repo_of(const Options& options, const std::filesystem::path& output) {
  auto site = hub::config().site;
  hub::require_upload(site);
  auto path = std::filesystem::absolute(output).lexically_normal();
  auto name = given_text(options, "hub_model_id");
  if (name.empty()) name = (path.has_filename() ? path : path.parent_path()).filename().string();
  return {.site = site,
          .kind = hub::Kind::model,
          .id = hub::qualified_repo_id(site, name),
          .revision = given_text(options, "hub_revision")};
}

train::PushWhen push_moment(const std::string& strategy) {
  if (strategy == "end") return train::PushWhen::end;
  if (strategy == "checkpoint") return train::PushWhen::checkpoint;
  return strategy == "all_checkpoints" ? train::PushWhen::all_checkpoints : train::PushWhen::every_save;
}

}  // namespace

std::optional<train::HubPushConfig> push_config(const Options& options, const std::filesystem::path& output) {
  if (!options.flag("push_to_hub")) return std::nullopt;
  return train::HubPushConfig{.repo = repo_of(options, output),
                              .private_repo = options.flag("hub_private_repo"),
                              .when = push_moment(options.text("hub_strategy")),
                              .always = options.flag("hub_always_push")};
}

// LLaMA-Factory's export pushes when it is told where to.
bool pushes_export(const Options& options) {
  return options.flag("push_to_hub") || (uses_factory_dialect(options) && options.has("hub_model_id"));
}

void push_folder(const Options& options, const std::filesystem::path& folder) {
  hub::UploadRequest request{.repo = repo_of(options, folder),
                             .private_repo = options.flag("hub_private_repo"),
                             .folder = folder,
                             .files = {},
                             .path_in_repo = "",
                             .message = options.has_option("commit_message") ? options.text("commit_message") : "Upload model"};
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_regular_file()) request.files.push_back(entry.path().filename());
  fmt::print("sent to {}\n", hub::upload(request));
}

}  // namespace hone::cli
