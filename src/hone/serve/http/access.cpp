#include "hone/serve/http/access.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>

#include "hone/base/log.h"
#include "hone/base/strings/base64.h"
#include "hone/base/strings/lower_case.h"

namespace hone::serve {
namespace {

std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

// `host` in lower case.
bool names_this_machine(std::string_view host) {
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]" || host == "::1";
}

std::string key_in(const HttpRequest& request) {
  auto header = request.header("authorization");
  auto blank = std::min(header.find(' '), header.size());
  auto scheme = lower_case(header.substr(0, blank));
  auto rest = header.substr(std::min(header.find_first_not_of(' ', blank), header.size()));
  if (scheme == "bearer") return std::string(rest);
  if (scheme == "basic") {
    const auto pair = decode_base64(rest);
    const auto colon = pair ? pair->find(':') : std::string::npos;
    return colon == std::string::npos ? "" : pair->substr(colon + 1);
  }
  return std::string(request.header("x-api-key"));
}

}  // namespace

Access::Access(const std::string& api_key, const std::string& host, std::vector<std::string> allowed_origins)
    : key_(digest(api_key)),
      has_key_(!api_key.empty()),
      loopback_(names_this_machine(lower_case(host))),
      host_(lower_case(host)),
      origins_(std::move(allowed_origins)) {}

Access::Digest Access::digest(std::string_view text) {
  Digest out;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data());
  return out;
}

bool Access::has_valid_key(const HttpRequest& request) const {
  auto given = digest(key_in(request));
  return CRYPTO_memcmp(given.data(), key_.data(), key_.size()) == 0;
}

bool is_browser_request(const HttpRequest& request) {
  return request.method == "GET" && (request.path == "/" || request.path.starts_with("/page/"));
}

ApiError wrong_key() { return {401, "incorrect API key provided", "", "invalid_api_key"}; }

HttpResponse Access::unauthorized_response(HttpResponse refusal, const HttpRequest& request) {
  refusal.headers.emplace_back(
      "WWW-Authenticate", is_browser_request(request) ? "Basic realm=\"hone: any name, the API key as password\"" : "Bearer");
  return refusal;
}

void Access::warn_if_unauthenticated() const {
  if (!loopback_ && !has_key_) log::warning("no API key is set: anyone who can reach {} can use the model; set `api_key`", host_);
}

bool Access::allows_origin(std::string_view origin) const {
  return std::any_of(origins_.begin(), origins_.end(),
                     [&](const std::string& allowed) { return allowed == "*" || allowed == origin; });
}

std::optional<ApiError> Access::wrong_origin(const HttpRequest& request) const {
  auto host = lower_case(request.header("host"));
  auto name = without_port(host);
  if (loopback_ && !names_this_machine(name) && name != host_)
    return ApiError(403, "this server listens on this machine only and does not accept that Host", "", "wrong_host");
  auto origin = request.header("origin");
  if (origin.empty() || allows_origin(origin)) return std::nullopt;
  auto slashes = origin.find("://");
  if (slashes != origin.npos && lower_case(origin.substr(slashes + 3)) == host) return std::nullopt;
  return ApiError(403, "pages of another site may not use this server; `allowed_origins` names those that may", "",
                  "wrong_origin");
}

}  // namespace hone::serve
