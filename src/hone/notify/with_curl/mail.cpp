#include "hone/notify/with_curl/mail.h"

#include <curl/curl.h>
#include <unistd.h>

#include <cstring>
#include <ctime>
#include <memory>

#include "hone/base/error.h"
#include "hone/base/strings/base64.h"
#include "hone/hub/access.h"
#include "hone/hub/with_curl/http.h"

namespace hone::notify {
namespace {

constexpr int kPortOfTls = 465;

// A header with non-ASCII characters (RFC 2047). hone's subjects fit into one encoded word.
std::string encoded_words(const std::string& text) { return "=?utf-8?B?" + encode_base64(text) + "?="; }

std::string base64_lines(const std::string& text) {
  auto whole = encode_base64(text);
  std::string lines;
  for (size_t at = 0; at < whole.size(); at += 76) lines += whole.substr(at, 76) + "\r\n";
  return lines;
}

std::string date_now() {
  char text[64];
  std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S +0000", &parts);  // hone always uses the C locale
  return text;
}

std::string mail_part(const char* type, const std::string& text, const std::string& boundary) {
  return fmt::format("--{}\r\nContent-Type: {}; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n{}", boundary, type,
                     base64_lines(text));
}

struct SentMail {
  std::string source;
  size_t sent = 0;
};

size_t on_mail(char* data, size_t size, size_t count, void* pointer) {
  auto& mail = *static_cast<SentMail*>(pointer);
  size_t part = std::min(size * count, mail.source.size() - mail.sent);
  std::memcpy(data, mail.source.data() + mail.sent, part);
  mail.sent += part;
  return part;
}

curl_slist* addresses_of(const std::string& receivers) {
  curl_slist* list = nullptr;
  for (size_t begin = 0; begin < receivers.size();) {
    auto end = std::min(receivers.find(',', begin), receivers.size());
    auto first = receivers.find_first_not_of(' ', begin), last = receivers.find_last_not_of(' ', end - 1);
    if (first < end) list = curl_slist_append(list, fmt::format("<{}>", receivers.substr(first, last - first + 1)).c_str());
    begin = end + 1;
  }
  return list;
}

}  // namespace

std::string mail_source(const Mail& mail) {
  const auto boundary = fmt::format("hone-{:x}-{:x}", std::time(nullptr), ::getpid());
  const auto domain = mail.sender.substr(mail.sender.find('@') + 1);
  return fmt::format(
             "From: <{}>\r\nTo: {}\r\nSubject: {}\r\nDate: {}\r\nMessage-ID: <{}@{}>\r\nMIME-Version: 1.0\r\n"
             "Content-Type: multipart/alternative; boundary=\"{}\"\r\n\r\n",
             mail.sender, mail.receivers, encoded_words(mail.subject), date_now(), boundary, domain, boundary) +
         mail_part("text/plain", mail.text, boundary) + mail_part("text/html", mail.html, boundary) +
         fmt::format("--{}--\r\n", boundary);
}

void send_mail(const Mail& mail, std::chrono::seconds timeout) {
  hub::start_curl();
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> handle(curl_easy_init(), curl_easy_cleanup);
  HONE_CHECK(handle != nullptr, "libcurl gives no handle");
  CURL* curl = handle.get();
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> receivers(addresses_of(mail.receivers), curl_slist_free_all);
  const auto url = fmt::format("{}://{}:{}", mail.port == kPortOfTls ? "smtps" : "smtp", mail.server, mail.port);
  const auto sender = fmt::format("<{}>", mail.sender);
  SentMail sent{mail_source(mail)};
  char details[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "smtp,smtps");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, details);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, static_cast<long>(timeout.count()));
  curl_easy_setopt(curl, CURLOPT_USE_SSL, mail.password.empty() ? CURLUSESSL_TRY : CURLUSESSL_ALL);
  if (const auto& trusted = hub::config().user.certificates; !trusted.empty())
    curl_easy_setopt(curl, CURLOPT_CAINFO, trusted.c_str());
  if (!mail.password.empty()) {
    curl_easy_setopt(curl, CURLOPT_USERNAME, mail.sender.c_str());
    curl_easy_setopt(curl, CURLOPT_PASSWORD, mail.password.c_str());
  }
  curl_easy_setopt(curl, CURLOPT_MAIL_FROM, sender.c_str());
  curl_easy_setopt(curl, CURLOPT_MAIL_RCPT, receivers.get());
  curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
  curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_mail);
  curl_easy_setopt(curl, CURLOPT_READDATA, &sent);
  if (CURLcode code = curl_easy_perform(curl); code != CURLE_OK)
    throw std::runtime_error(fmt::format("{}:{}: {}", mail.server, mail.port, *details ? details : curl_easy_strerror(code)));
}

}  // namespace hone::notify
