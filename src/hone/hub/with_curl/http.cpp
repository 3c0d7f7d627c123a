#include "hone/hub/with_curl/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <utility>

#include "hone/base/error.h"
#include "hone/base/strings/lower_case.h"
#include "hone/hub/access.h"
#include "hone/hub/public_address.h"
#include "hone/hub/with_curl/interrupt.h"

namespace hone::hub {
namespace {

constexpr int kMostRedirects = 6;
constexpr size_t kLongestRefusal = 64 << 10, kMostHeaders = 200;

// A response in progress; curl's callbacks must not throw, so exceptions are stored here.
struct Exchange {
  CURL* curl;
  const HttpBody& body;
  HttpReply reply;
  bool begun = false;
  std::exception_ptr trouble;
  bool led_inside = false;  // to a non-public address

  bool carries_body() const { return reply.status >= 200 && reply.status < 300; }
  void begin() {
    if (std::exchange(begun, true)) return;
    if (carries_body() && body.begin) body.begin(reply);
  }
};

size_t on_header(char* data, size_t, size_t length, void* pointer) {
  auto& exchange = *static_cast<Exchange*>(pointer);
  std::string_view line(data, length);
  if (line.starts_with("HTTP/")) {  // also after a "100 Continue" or a proxy's response
    exchange.reply.headers.clear();
    auto space = line.find(' ');
    exchange.reply.status = space == line.npos ? 0 : std::atol(std::string(line.substr(space + 1, 3)).c_str());
    return length;
  }
  auto colon = line.find(':');
  if (colon == line.npos || exchange.reply.headers.size() > kMostHeaders) return length;
  const auto name = lower_case(line.substr(0, colon));
  std::string value(line.substr(colon + 1));
  auto first = value.find_first_not_of(" \t"), last = value.find_last_not_of(" \t\r\n");
  exchange.reply.headers[name] = first == value.npos ? "" : value.substr(first, last - first + 1);
  return length;
}

size_t on_body(char* data, size_t, size_t length, void* pointer) {
  auto& exchange = *static_cast<Exchange*>(pointer);
  try {
    exchange.begin();
    if (exchange.carries_body())
      exchange.body.write({data, length});
    else
      exchange.reply.body.append(data, std::min(length, kLongestRefusal - std::min(kLongestRefusal, exchange.reply.body.size())));
    return length;
  } catch (...) {
    exchange.trouble = std::current_exception();
    return CURL_WRITEFUNC_ERROR;
  }
}

// The part of a file sent by a request.
struct SentFile {
  std::ifstream file;
  uintmax_t left = 0;
};

size_t on_send(char* data, size_t size, size_t count, void* pointer) {
  auto& sent = *static_cast<SentFile*>(pointer);
  auto wanted = static_cast<std::streamsize>(std::min<uintmax_t>(size * count, sent.left));
  sent.file.read(data, wanted);
  if (sent.file.gcount() < wanted) return CURL_READFUNC_ABORT;  // the file was truncated
  sent.left -= static_cast<uintmax_t>(sent.file.gcount());
  return static_cast<size_t>(sent.file.gcount());
}

void attach_body(CURL* curl, const HttpRequest& request, SentFile& sent) {
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (request.body_file.empty()) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.data());
    return;
  }
  sent.file.open(request.body_file, std::ios::binary);
  sent.file.seekg(static_cast<std::streamoff>(request.body_begin));
  sent.left = request.body_length;
  if (!sent.file) throw HttpFailure(fmt::format("{} cannot be read", request.body_file.string()));
  curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
  curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body_length));
  curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_send);
  curl_easy_setopt(curl, CURLOPT_READDATA, &sent);
}

int on_progress(void* pointer, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto& request = *static_cast<const HttpRequest*>(pointer);
  return interrupted() || (request.is_cancelled && request.is_cancelled()) ? 1 : 0;
}

// Checks the resolved address itself, whatever the host name.
curl_socket_t on_public_socket(void* pointer, curlsocktype, curl_sockaddr* address) {
  if (!is_public_address(address->addr)) {
    static_cast<Exchange*>(pointer)->led_inside = true;
    return CURL_SOCKET_BAD;
  }
  return ::socket(address->family, address->socktype, address->protocol);
}

std::string part_of(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return "";
  std::string copy = text;
  curl_free(text);
  return copy;
}

struct Origin {
  std::string scheme, host, port;
  bool operator==(const Origin&) const = default;
};

// Resolves `relative`, a Location header, against `base`: the absolute URL and its host.
std::pair<std::string, Origin> resolve(const std::string& base, const std::string& relative) {
  std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> url(curl_url(), curl_url_cleanup);
  bool well = curl_url_set(url.get(), CURLUPART_URL, base.c_str(), 0) == CURLUE_OK &&
              (relative.empty() || curl_url_set(url.get(), CURLUPART_URL, relative.c_str(), 0) == CURLUE_OK);
  Origin origin{part_of(url.get(), CURLUPART_SCHEME), part_of(url.get(), CURLUPART_HOST), part_of(url.get(), CURLUPART_PORT)};
  if (!well || (origin.scheme != "http" && origin.scheme != "https"))
    throw HttpFailure(fmt::format("\"{}\" is not an http or https address", relative.empty() ? base : relative));
  return {part_of(url.get(), CURLUPART_URL), origin};
}

bool is_listed(const std::string& host, const std::vector<std::string>& hosts) {
  auto same = [&](const std::string& one) {
    return std::ranges::equal(
        one, host, {}, [](unsigned char c) { return std::tolower(c); }, [](unsigned char c) { return std::tolower(c); });
  };
  return hosts.empty() || std::ranges::any_of(hosts, same);
}

bool is_redirect(long status) { return status == 301 || status == 302 || status == 303 || status == 307 || status == 308; }

std::optional<std::chrono::seconds> pause_asked_for(const HttpReply& reply) {
  auto text = reply.header("retry-after");
  if (text.empty()) return {};
  char* end = nullptr;
  long seconds = std::strtol(text.c_str(), &end, 10);
  if (*end != 0) {
    auto when = curl_getdate(text.c_str(), nullptr);
    if (when < 0) return {};
    seconds = static_cast<long>(when - std::time(nullptr));
  }
  return std::chrono::seconds(std::clamp(seconds, 0L, 300L));
}

HttpFailure refusal(const HttpReply& reply, const std::string& url) {
  HttpFailure failure(fmt::format("{} answers {}", url.substr(0, url.find('?')), reply.status));
  failure.status = reply.status;
  failure.worth_retrying = reply.status == 408 || reply.status == 429 || reply.status >= 500;
  failure.retry_after = pause_asked_for(reply);
  failure.reason = reply.header("x-error-code");
  failure.body = reply.body;
  return failure;
}

HttpFailure transport_failure(CURLcode code, const char* details, const Origin& origin) {
  HttpFailure failure(*details ? std::string(details) : fmt::format("{}: {}", origin.host, curl_easy_strerror(code)));
  failure.unreachable =
      code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_PROXY;
  failure.worth_retrying =
      code != CURLE_PEER_FAILED_VERIFICATION && code != CURLE_SSL_CACERT_BADFILE && code != CURLE_URL_MALFORMAT;
  return failure;
}

}  // namespace

std::string HttpReply::header(const std::string& name) const {
  auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::chrono::milliseconds time_until(std::chrono::steady_clock::time_point deadline) {
  using std::chrono::milliseconds;
  return std::max(std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()), milliseconds(1));
}

void start_curl() {
  static const CURLcode once = curl_global_init(CURL_GLOBAL_DEFAULT);
  HONE_CHECK(once == CURLE_OK, "libcurl does not start");
}

Http::Http() {
  start_curl();
  curl_ = curl_easy_init();
  HONE_CHECK(curl_ != nullptr, "libcurl gives no handle");
}

Http::~Http() { curl_easy_cleanup(curl_); }

HttpReply Http::perform(const HttpRequest& request, const HttpBody& body, bool with_secrets) {
  CURL* curl = curl_;
  curl_easy_reset(curl);
  curl_slist* lines = curl_slist_append(nullptr, "Accept-Encoding: identity");
  for (const auto& header : request.headers) lines = curl_slist_append(lines, header.c_str());
  if (with_secrets)
    for (const auto& header : request.secrets) lines = curl_slist_append(lines, header.c_str());
  if (request.method != "GET") lines = curl_slist_append(lines, "Expect:");  // otherwise libcurl waits for an interim response
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(lines, curl_slist_free_all);
  SentFile sent;
  char details[CURL_ERROR_SIZE] = "";
  Exchange exchange{curl, body, {}, false, nullptr};
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "hone/0.1");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, details);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, std::min<long>(10, request.read_timeout.count()));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.read_timeout.count()));
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(request.total_timeout.count()));
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L << 10);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &exchange);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &request);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  if (request.direct || request.no_proxy) curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  if (request.public_only) {
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, on_public_socket);
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, &exchange);
  }
  if (request.method != "GET") attach_body(curl, request, sent);
  if (const auto& trusted = config().user.certificates; !trusted.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, trusted.c_str());
  CURLcode code = curl_easy_perform(curl);
  if (exchange.trouble) std::rethrow_exception(exchange.trouble);
  throw_if_interrupted();
  if (code != CURLE_OK && exchange.led_inside)
    throw HttpFailure(fmt::format("{} is an address of this machine or its network", resolve(request.url, "").second.host));
  if (code != CURLE_OK) throw transport_failure(code, details, resolve(request.url, "").second);
  exchange.begin();  // an empty body
  return std::move(exchange.reply);
}

void Http::fetch(const HttpRequest& request, const HttpBody& body) {
  auto [url, home] = resolve(request.url, "");
  const auto deadline = std::chrono::steady_clock::now() + request.total_timeout;
  HttpRequest hop = request;
  for (int redirects = 0;; ++redirects) {
    auto [address, origin] = resolve(hop.url, "");
    if (request.total_timeout.count() > 0) hop.total_timeout = time_until(deadline);
    if (!is_listed(origin.host, request.hosts)) throw HttpFailure(fmt::format("{} is not an allowed host", origin.host));
    auto reply = perform(hop, body, origin == home);
    if (!is_redirect(reply.status)) {
      if (reply.status < 200 || reply.status >= 300) throw refusal(reply, hop.url);
      return;
    }
    if (request.direct) throw HttpFailure(fmt::format("{} redirects to another address", origin.host));
    if (redirects == kMostRedirects) throw HttpFailure(fmt::format("{} redirects without end", request.url));
    auto [next, next_origin] = resolve(hop.url, reply.header("location"));
    if (origin.scheme == "https" && next_origin.scheme == "http")
      throw HttpFailure(fmt::format("{} redirects from https to http", origin.host));
    hop.url = next;
  }
}

HttpReply Http::get(const HttpRequest& request, size_t limit) {
  struct Complete {};
  HttpReply whole;
  const auto write = [&](std::span<const char> bytes) {
    if (whole.body.size() + bytes.size() > limit)
      throw HttpFailure(fmt::format("the response of {} has more than {} bytes", request.url, limit));
    whole.body.append(bytes.data(), bytes.size());
    if (request.is_complete && request.is_complete(whole.body)) throw Complete();
  };
  try {
    fetch(request, {.begin = [&](const HttpReply& head) { whole = head; }, .write = write});
  } catch (const Complete&) {
  }
  return whole;
}

}  // namespace hone::hub
