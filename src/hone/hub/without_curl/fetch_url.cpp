#include "hone/hub/fetch_url.h"

namespace hone::hub {

Result<std::filesystem::path> fetch_url(const std::string&, const FetchLimits&, const std::filesystem::path&) {
  return error("an address, and this build has no libcurl; install libcurl4-openssl-dev and build again, or give a path");
}

}  // namespace hone::hub
