// The upload APIs of the two hubs: Hugging Face's preupload, LFS and commit; ModelScope's blobs and commit.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/hub/access.h"
#include "hone/hub/with_curl/digest.h"
#include "hone/hub/with_curl/http.h"

namespace hone::hub {

struct UploadFile {
  std::filesystem::path path;
  std::string name;  // in the repository
  uintmax_t size = 0;
  std::string sha256;
  bool large = false;  // sent before the commit, which then only names it
};

// One hub and this user's token. Every call throws HttpFailure.
class HubApi {
 public:
  explicit HubApi(Access access) : access_(std::move(access)) {}
  virtual ~HubApi() = default;
  virtual std::string owner() = 0;                               // of the token
  virtual void create(const Repo& repo, bool private_repo) = 0;  // nothing happens when it is there
  virtual void choose_modes(const Repo& repo, std::vector<UploadFile>& files) = 0;
  virtual void send(const Repo& repo, const UploadFile& file) = 0;
  virtual std::string commit(const Repo& repo, const std::vector<UploadFile>& files, const std::string& message) = 0;

 protected:
  HttpRequest authorized(const std::string& method, const std::string& url) const;
  // Sends and receives JSON; retries transient failures.
  Json ask(const std::string& method, const std::string& url, const Json& body = nullptr);
  Json ask(HttpRequest request);
  HttpReply put(const std::string& url, const UploadFile& file, uintmax_t begin, uintmax_t length,
                std::vector<std::string> headers);

  Access access_;
  Http http_;
};

std::unique_ptr<HubApi> make_hub_api(const Access& access);
std::unique_ptr<HubApi> make_hugging_face_api(const Access& access);
std::unique_ptr<HubApi> make_modelscope_api(const Access& access);

}  // namespace hone::hub
