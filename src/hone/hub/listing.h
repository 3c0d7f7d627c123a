// The file listing of a repository, parsed from the responses of both hubs. The input is untrusted: nothing here throws.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hone/base/error.h"
#include "hone/hub/access.h"

namespace hone::hub {

struct RemoteFile {
  std::string path;  // checked: a relative path that stays inside its folder
  uint64_t size = 0;
  std::string sha256;  // of the content, or
  std::string blob;    // git's SHA-1 of the content, for small files on Hugging Face

  // The content's identifier, Hugging Face's etag.
  const std::string& checksum() const { return sha256.empty() ? blob : sha256; }
};

struct Listing {
  std::string commit;  // Hugging Face: the commit of the revision
  std::vector<RemoteFile> files;
};

// Hugging Face: the commit of a revision, one page of a commit's tree, and the next page from the Link header.
Result<std::string> read_commit(std::string_view json);
Result<std::vector<RemoteFile>> read_tree(std::string_view json);
std::string next_page(std::string_view link_header);
// ModelScope: the files of a model, or one page of a dataset's.
struct FilePage {
  std::vector<RemoteFile> files;
  size_t entries = 0;  // with folders: the size of a page
};
Result<FilePage> read_files(std::string_view json);

// URLs. `page` counts from 1.
std::string revision_url(const Access& access, const Repo& repo);
std::string tree_address(const Access& access, const Repo& repo, const std::string& commit);
std::string files_address(const Access& access, const Repo& repo, int page);
std::string file_url(const Access& access, const Repo& repo, const std::string& commit, const std::string& path);
std::string repo_url(const Access& access, const Repo& repo);  // the web page
inline constexpr int kDatasetPage = 200;                       // entries that a page of a ModelScope dataset holds
inline constexpr size_t kMostModelFiles = 3000;                // ModelScope silently truncates a model's listing here

// Selection of files by shell patterns, as in the hubs' tools, with ms-swift's default exclusions.
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
