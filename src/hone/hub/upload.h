// Sending files to a repository of this user. Two builds: with libcurl, and without, which only explains.
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
};

// Creates the repository if need be, sends what the hub does not have yet and commits all files together. Returns the page to
// look at. Throws UserError; nothing of a failed upload is seen by others.
std::string upload(const UploadRequest& request);

// Whether uploads can work at all: a token, a connection that is allowed. Throws UserError, before the work whose result is to be
// sent.
void require_upload(Site site);

// "name" becomes "owner/name" for the owner of the token.
std::string qualified_repo_id(Site site, const std::string& name);

}  // namespace hone::hub
