#include "hone/hub/fetch_url.h"
#include "hone/base/strings/hex.h"

#include <openssl/sha.h>

#include <array>

#include "hone/base/file.h"
#include "hone/hub/access.h"
#include "hone/hub/with_curl/http.h"

namespace hone::hub {
namespace {

std::string name_of_url(const std::string& url) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(url.data()), url.size(), digest.data());
  return hex_digits({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

// Retries once after a transient failure, within the same time limit.
std::string download_url(const std::string& url, const FetchLimits& limits, const std::function<bool()>& is_cancelled) {
  const auto deadline = std::chrono::steady_clock::now() + limits.total_timeout;
  HttpRequest request{.url = url, .headers = {}, .secrets = {}};
  request.read_timeout = limits.total_timeout;
  request.public_only = !limits.private_addresses;
  request.hosts = limits.hosts;
  request.no_proxy = true;
  request.is_cancelled = is_cancelled;
  constexpr int kTries = 2;
  for (int tried = 1;; ++tried) {
    request.total_timeout = time_until(deadline);
    try {
      return Http().get(request, limits.most_bytes).body;
    } catch (const HttpFailure& failure) {
      const bool is_over = std::chrono::steady_clock::now() >= deadline || (is_cancelled && is_cancelled());
      if (!failure.worth_retrying || tried == kTries || is_over) throw;
    }
  }
}

}  // namespace

Result<std::string> fetch_bytes(const std::string& url, const FetchLimits& limits, const std::function<bool()>& is_cancelled) {
  if (offline()) return error("an address, and downloads are off (HF_HUB_OFFLINE); expected a path");
  try {
    return download_url(url, limits, is_cancelled);
  } catch (const HttpFailure& failure) {
    return error("not fetched: {}", failure.what());
  }
}

Result<fs::path> fetch_url(const std::string& url, const FetchLimits& limits, const fs::path& folder) {
  const auto path = folder / name_of_url(url);
  std::error_code absent;
  if (fs::exists(path, absent)) return path;
  if (offline()) return error("an address, and downloads are off (HF_HUB_OFFLINE); expected a path");
  try {
    const auto content = download_url(url, limits, {});
    fs::create_directories(folder);
    write_file_atomically(path, content);
    return path;
  } catch (const HttpFailure& failure) {
    return error("not fetched: {}", failure.what());
  } catch (const UserError& failure) {
    return error("not kept: {}", failure.what());
  } catch (const fs::filesystem_error& failure) {
    return error("not kept: {}", failure.what());
  }
}

}  // namespace hone::hub
