// Uploads files to a repository of this user. Two implementations: with libcurl, and without, which only reports an error.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "hone/hub/access.h"

namespace hone::hub {

struct UploadRequest {
  Repo repo;  // a revision is a branch, made when it is not there
  bool private_repo = false;
  std::filesystem::path folder;
  std::vector<std::filesystem::path> files;  // of the folder
  std::string path_in_repo;                  // a folder of the repository; "" is its top
  std::string message;                       // of the commit
  std::string token;                         // "": the one of this user
};

// Creates the repository if needed, uploads what the hub lacks and commits all files together. Returns the URL of the repository.
// Throws UserError; a failed upload leaves nothing visible.
std::string upload(const UploadRequest& request);

// Checks that uploads can work at all: a token, and network access. Throws UserError, before the result is computed.
void require_upload(Site site);

// "name" becomes "owner/name" for the owner of the token.
std::string qualified_repo_id(Site site, const std::string& name);

}  // namespace hone::hub
