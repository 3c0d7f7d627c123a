#include "hone/hub/download.h"

namespace hone::hub {

bool can_download() { return false; }

std::filesystem::path download(const DownloadRequest& request) {
  throw UserError(ExitCode::usage, fmt::format("{}: this hone was built without libcurl and cannot download", request.repo.id),
                  "install libcurl4-openssl-dev and libssl-dev and build again, or fetch it elsewhere and pass its folder");
}

}  // namespace hone::hub
