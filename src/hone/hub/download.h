// Downloads a repository into its hub's cache or a given folder. Two implementations: with libcurl, and without, which only
// reports an error.
#pragma once
#include <filesystem>
#include <optional>

#include "hone/hub/access.h"
#include "hone/hub/listing.h"

namespace hone::hub {

struct DownloadRequest {
  Repo repo;
  Patterns patterns;
  std::optional<std::filesystem::path> local_dir;  // plain files here instead of the cache
  bool to_be_loaded = false;                       // refuse, before the first byte, what hone could not load
};

// Keeps existing files and resumes partial ones. Throws
// UserError; after `interrupted` the download can be resumed.
std::filesystem::path download(const DownloadRequest& request);

bool can_download();

}  // namespace hone::hub
