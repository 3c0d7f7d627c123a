// One repository on one hub: its listing, requests for its files, and actionable error messages.
#pragma once
#include <string>

#include "hone/hub/listing.h"
#include "hone/hub/with_curl/http.h"

namespace hone::hub {

class Remote {
 public:
  Remote(Access access, Repo repo) : access_(std::move(access)), repo_(std::move(repo)) {}

  // Every file of the revision. Throws UserError.
  Listing list() const;
  HttpRequest request_for(const std::string& path, const std::string& commit) const;

  const Access& access() const { return access_; }
  const Repo& repo() const { return repo_; }
  UserError explained(const HttpFailure& failure) const;

 private:
  HttpRequest request(const std::string& url) const;
  HttpReply ask(Http& http, const std::string& url) const;
  Listing list_hugging_face(Http& http) const;
  Listing list_modelscope(Http& http) const;

  Access access_;
  Repo repo_;
};

}  // namespace hone::hub
