// Lists the contents of the two caches, with sizes.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hone/hub/repo.h"

namespace hone::hub {

struct CachedRepo {
  Site site = Site::modelscope;
  Kind kind = Kind::model;
  std::string id;
  std::vector<std::string> revisions;  // names of snapshots; empty in ModelScope's older layouts
  std::filesystem::path folder;        // for --model and --dataset
  uint64_t bytes = 0, files = 0;       // on the disk; a blob that several snapshots share counts once
  std::filesystem::file_time_type changed = std::filesystem::file_time_type::min();
  std::vector<std::string> missing;  // by missing_files()
};

// Sorted by kind and id. Entries that are not repositories are skipped.
std::vector<CachedRepo> scan_caches();

}  // namespace hone::hub
