// Selects the files of a repository: shell patterns as in the hubs' tools, and ms-swift's default exclusions.
#pragma once
#include <string>
#include <vector>

#include "hone/hub/listing.h"

namespace hone::hub {

// `*` matches slashes too, as in Python's fnmatch; a pattern that ends in "/" means everything below.
bool matches(const std::string& pattern, const std::string& path);

struct Patterns {
  std::vector<std::string> include;  // empty: all
  std::vector<std::string> exclude;
};

// Other frameworks' weights, archives, and pickled weights that come with safetensors.
std::vector<std::string> default_ignore_patterns(const std::vector<RemoteFile>& files, Kind kind);
// User patterns replace the default ones.
std::vector<RemoteFile> filter_files(const std::vector<RemoteFile>& files, const Patterns& patterns, Kind kind);

// Whether weights exist only in formats that hone does not read because loading them can execute code.
bool only_pickled_weights(const std::vector<RemoteFile>& files);

}  // namespace hone::hub
