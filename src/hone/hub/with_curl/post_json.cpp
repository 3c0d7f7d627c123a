#include "hone/hub/post_json.h"

#include <arpa/inet.h>
#include <curl/curl.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "hone/base/log.h"
#include "hone/hub/with_curl/http.h"

namespace hone::hub {
namespace {

using Clock = std::chrono::steady_clock;

std::string part_or_nothing(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, 0) != CURLUE_OK) return "";
  std::unique_ptr<char, decltype(&curl_free)> owned(text, curl_free);
  return text;
}

bool is_loopback(const std::string& host) {
  in_addr address{};
  if (inet_pton(AF_INET, host.c_str(), &address) == 1) return ntohl(address.s_addr) >> 24 == 127;
  return host == "localhost" || host == "[::1]";
}

constexpr int kPostTries = 5;

std::chrono::milliseconds pause_after_post(int failed) { return std::chrono::milliseconds(500 << failed); }

// Requests that run at the same time fail alike: the message does not depend on the try, so that one line is logged for all.
void warn_of_post_retries(const std::string& address, const HttpFailure& failure, std::chrono::milliseconds timeout) {
  std::chrono::milliseconds pauses{0};
  for (int failed = 0; failed + 1 < kPostTries; ++failed) pauses += pause_after_post(failed);
  const auto shown = read_address(address).value_or(PostAddress{}).shown;
  const auto found = failure.status == 0 ? "no response" : fmt::format("it answers {}", failure.status);
  log::warn_once(fmt::format("{}: {}; trying again for about {} s", shown, found,
                             std::chrono::ceil<std::chrono::seconds>(std::min(pauses, timeout)).count()));
}

void nap(std::chrono::milliseconds time, const PostOptions& posting) {
  for (auto until = Clock::now() + time; Clock::now() < until; std::this_thread::sleep_for(std::chrono::milliseconds(50)))
    if (posting.is_cancelled && posting.is_cancelled()) throw PostCancelled();
}

}  // namespace

std::optional<PostAddress> read_address(const std::string& address) {
  std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> url(curl_url(), curl_url_cleanup);
  if (curl_url_set(url.get(), CURLUPART_URL, address.c_str(), 0) != CURLUE_OK) return std::nullopt;
  auto scheme = part_or_nothing(url.get(), CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") return std::nullopt;
  PostAddress read{part_or_nothing(url.get(), CURLUPART_HOST), part_or_nothing(url.get(), CURLUPART_PATH), false, ""};
  read.this_machine = is_loopback(read.host);
  for (auto part : {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY, CURLUPART_FRAGMENT})
    curl_url_set(url.get(), part, nullptr, 0);
  read.shown = part_or_nothing(url.get(), CURLUPART_URL);
  auto begin = read.path.find_first_not_of('/');
  read.path = begin == read.path.npos ? "" : read.path.substr(begin, read.path.find_last_not_of('/') - begin + 1);
  return read;
}

std::string post_json(const std::string& address, const std::string& body, const PostOptions& posting) {
  constexpr size_t kLongest = size_t{64} << 20;
  const auto deadline = Clock::now() + posting.timeout;
  std::vector<std::string> secrets;
  if (!posting.bearer_token.empty()) secrets.push_back("Authorization: Bearer " + posting.bearer_token);
  for (int failed = 0;; ++failed) {
    auto left = std::max(std::chrono::ceil<std::chrono::seconds>(deadline - Clock::now()), std::chrono::seconds(1));
    HttpRequest request{.url = address,
                        .headers = {"Content-Type: application/json"},
                        .secrets = secrets,
                        .read_timeout = left,
                        .method = "POST",
                        .body = body,
                        .total_timeout = left,
                        .direct = true,
                        .is_cancelled = posting.is_cancelled};
    try {
      return Http().get(request, kLongest).body;
    } catch (const HttpFailure& failure) {
      if (posting.is_cancelled && posting.is_cancelled()) throw PostCancelled();
      auto pause = pause_after_post(failed);
      if (failure.worth_retrying && failed + 1 < kPostTries && Clock::now() + pause < deadline) {
        if (failed == 0) warn_of_post_retries(address, failure, posting.timeout);
        nap(pause, posting);
        continue;
      }
      throw std::runtime_error(describe(failure));
    }
  }
}

void require_listener(const std::string& address, std::chrono::seconds patience) {
  const auto deadline = Clock::now() + patience;
  for (;;) {
    std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> easy(curl_easy_init(), curl_easy_cleanup);
    curl_easy_setopt(easy.get(), CURLOPT_URL, address.c_str());
    curl_easy_setopt(easy.get(), CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(easy.get(), CURLOPT_PROXY, "");
    curl_easy_setopt(easy.get(), CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy.get(), CURLOPT_CONNECTTIMEOUT, static_cast<long>(patience.count()));
    auto outcome = curl_easy_perform(easy.get());
    if (outcome == CURLE_OK) return;
    constexpr auto kPause = std::chrono::milliseconds(500);
    if (outcome != CURLE_COULDNT_CONNECT || Clock::now() + kPause > deadline)
      throw std::runtime_error(curl_easy_strerror(outcome));
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace hone::hub
