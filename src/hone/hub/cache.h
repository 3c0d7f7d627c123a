// The caches of ModelScope and Hugging Face in their own layouts: finding a repository in them, and where a new one belongs.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hone/hub/repo.h"

namespace hone::hub {

// Where the files of a repository are, or will be.
struct CacheLocation {
  std::filesystem::path root;      // what belongs to the repository and nothing else; partial downloads live in root/.hone
  std::filesystem::path snapshot;  // the folder a person is given
  bool blobs = false;              // files are root/blobs/<checksum>, the snapshot holds links to them

  std::filesystem::path partial() const { return root / ".hone"; }
  // Stands while files are being put into a snapshot one by one.
  std::filesystem::path unfinished() const { return partial() / (snapshot.filename().string() + ".unfinished"); }
};

// The place of `repo` below `cache` when something is there.
std::optional<CacheLocation> find_place(const Repo& repo, const std::filesystem::path& cache);
// Where its site's own tools would put it. `commit` is what the revision resolves to (Hugging Face).
CacheLocation new_place(const Repo& repo, const std::filesystem::path& cache, const std::string& commit);

// What is known to be missing: shards that the index names, weights, files of an interrupted download. Empty means whole.
// `inside` is the folder of the repository that is wanted, when it is not all of it.
std::vector<std::string> missing_files(const CacheLocation& place, Kind kind, const std::filesystem::path& inside = {});

// The folder that came from a hub and that contains `folder`: a cache, or the target of a download. None: it did
// not come from a hub, as far as can be seen.
std::optional<std::filesystem::path> download_root(const std::filesystem::path& folder);
// What a download leaves in the folder it was given.
std::filesystem::path download_note(const std::filesystem::path& folder);

std::string hugging_face_folder(const Repo& repo);  // "models--Qwen--Qwen2-7B"

}  // namespace hone::hub
