// Downloads files from a hub: several at once, large ones in several ranges, each verified before it gets its name.
#pragma once
#include <filesystem>
#include <vector>

#include "hone/hub/with_curl/remote.h"

namespace hone::hub {

struct WantedFile {
  RemoteFile listed;
  std::filesystem::path part;    // where it grows
  std::filesystem::path target;  // the finished file
};

uint64_t bytes_listed(const std::vector<WantedFile>& files);
// Files that an earlier run has completed.
uint64_t bytes_begun(const std::vector<WantedFile>& files);

// Returns when every target exists, else throws UserError; received data are kept for the next run.
void transfer(const Remote& remote, const std::string& commit, std::vector<WantedFile> files);

}  // namespace hone::hub
