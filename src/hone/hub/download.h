// Fetching a repository into its hub's own cache, or a folder of choice. Two builds: with libcurl, and without, which only
// explains.
#pragma once
#include <filesystem>
#include <optional>

#include "hone/hub/access.h"
#include "hone/hub/patterns.h"

namespace hone::hub {

struct DownloadRequest {
  Repo repo;
  Patterns patterns;
  std::optional<std::filesystem::path> local_dir;  // plain files here instead of the cache
  bool to_be_loaded = false;                       // refuse, before the first byte, what hone could not load
};

// What of a repository is already here is kept, what was begun is continued. Throws UserError; `interrupted` leaves a state to go
// on from.
std::filesystem::path download(const DownloadRequest& request);

bool can_download();

}  // namespace hone::hub
