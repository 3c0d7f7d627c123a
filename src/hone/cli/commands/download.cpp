// download: fetches a model or dataset from a hub into its cache or a given folder.
#include "hone/hub/download.h"
#include "hone/cli/arguments/hub.h"
#include "hone/cli/commands.h"
#include "hone/cli/hub_options.h"
#include "hone/hub/access.h"

namespace hone::cli {

int download_command(const Options& options) {
  const HubArguments args(options);
  if (options.positional().empty())
    throw UserError(ExitCode::usage, "hone download: missing id of a model or dataset",
                    "for example: hone download Qwen/Qwen2.5-0.5B-Instruct");
  hub::DownloadRequest request{.repo = {hub::config().site, *args.is_dataset ? hub::Kind::dataset : hub::Kind::model,
                                        options.positional()[0], *args.model_revision},
                               .patterns = {*args.include, *args.exclude},
                               .local_dir = {}};
  if (!hub::is_repo_id(request.repo.id))
    throw UserError(ExitCode::usage, fmt::format("\"{}\" is not an id of a hub", request.repo.id), "an id is owner/name");
  if (!hub::is_revision(request.repo.branch()))
    throw UserError(ExitCode::usage, fmt::format("\"{}\" is not a branch, tag or commit", request.repo.revision));
  if (hub::offline()) throw UserError(ExitCode::usage, "HF_HUB_OFFLINE forbids downloads", "unset it");
  if (args.local_dir.has_value()) request.local_dir = *args.local_dir;
  fmt::print("{}\n", hub::download(request).string());
  return 0;
}

}  // namespace hone::cli
