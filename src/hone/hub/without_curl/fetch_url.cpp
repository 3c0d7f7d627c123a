#include "hone/hub/fetch_url.h"

namespace hone::hub {

static Error no_libcurl() {
  return error("an address, and this build has no libcurl; install libcurl4-openssl-dev and build again, or give a path");
}

Result<std::filesystem::path> fetch_url(const std::string&, const FetchLimits&, const std::filesystem::path&) {
  return no_libcurl();
}

Result<std::string> fetch_bytes(const std::string&, const FetchLimits&) { return no_libcurl(); }

}  // namespace hone::hub
