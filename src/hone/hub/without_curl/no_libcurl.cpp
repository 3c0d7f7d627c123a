// Without libcurl: folders and caches work, and whatever needs a connection reports what to install.
#include <stdexcept>

#include "hone/hub/download.h"
#include "hone/hub/fetch_url.h"
#include "hone/hub/http_call.h"
#include "hone/hub/post_json.h"
#include "hone/hub/upload.h"

namespace hone::hub {
namespace {

constexpr const char* kNoConnections =
    "this build has no libcurl and opens no connections; install libcurl4-openssl-dev and build again";

Error no_addresses() {
  return error("an address, and this build has no libcurl; install libcurl4-openssl-dev and build again, or give a path");
}

}  // namespace

bool can_download() { return false; }

std::filesystem::path download(const DownloadRequest& request) {
  throw UserError(ExitCode::usage, fmt::format("{}: this hone was built without libcurl and cannot download", request.repo.id),
                  "install libcurl4-openssl-dev and libssl-dev and build again, or fetch it elsewhere and pass its folder");
}

Result<std::filesystem::path> fetch_url(const std::string&, const FetchLimits&, const std::filesystem::path&) {
  return no_addresses();
}

Result<std::string> fetch_bytes(const std::string&, const FetchLimits&, const std::function<bool()>&) { return no_addresses(); }

HttpResponse http_call(const HttpCall&) { return {0, "", kNoConnections}; }

std::optional<PostAddress> read_address(const std::string&) { throw std::runtime_error(kNoConnections); }
std::string post_json(const std::string&, const std::string&, const PostOptions&) { throw std::runtime_error(kNoConnections); }
void require_listener(const std::string&, std::chrono::seconds) { throw std::runtime_error(kNoConnections); }

void require_upload(Site site) {
  throw UserError(ExitCode::usage,
                  fmt::format("this hone was built without libcurl and cannot send files to {}", site_name(site)),
                  "install libcurl4-openssl-dev and libssl-dev and build again, or use the hub's own tool");
}

std::string upload(const UploadRequest& request) {
  require_upload(request.repo.site);
  return "";
}

std::string qualified_repo_id(Site, const std::string& name) { return name; }

}  // namespace hone::hub
