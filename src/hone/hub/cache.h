// The caches of ModelScope and Hugging Face in their own layouts: finding a repository, and the location of a new one.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hone/hub/repo.h"

namespace hone::hub {

// The location of a repository's files, which may not exist yet.
struct CacheLocation {
  std::filesystem::path root;      // what belongs to the repository and nothing else; partial downloads live in root/.hone
  std::filesystem::path snapshot;  // the folder that the user gets
  bool blobs = false;              // files are root/blobs/<checksum>, the snapshot holds links to them

  std::filesystem::path partial() const { return root / ".hone"; }
  // Exists while files are added to a snapshot one by one.
  std::filesystem::path unfinished() const { return partial() / (snapshot.filename().string() + ".unfinished"); }
};

// The location of `repo` below `cache`, if it exists.
std::optional<CacheLocation> find_place(const Repo& repo, const std::filesystem::path& cache);
// The location that the site's own tools would use. `commit` is the resolved revision (Hugging Face).
CacheLocation new_place(const Repo& repo, const std::filesystem::path& cache, const std::string& commit);

// Known missing files: shards listed in the index, weights, files of an interrupted download. Empty if complete. `inside` is the
// requested subfolder of the repository, if any.
std::vector<std::string> missing_files(const CacheLocation& place, Kind kind, const std::filesystem::path& inside = {});

// The downloaded folder that contains `folder`: a cache, or the target of a download. None if it did not come from a hub.
std::optional<std::filesystem::path> download_root(const std::filesystem::path& folder);
// The file that a download leaves in its target folder.
std::filesystem::path download_note(const std::filesystem::path& folder);

std::string hugging_face_folder(const Repo& repo);  // "models--Qwen--Qwen2-7B"

}  // namespace hone::hub
