#include <curl/curl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <chrono>

#include "hone/base/json.h"
#include "hone/hub/notice.h"
#include "hone/hub/with_curl/http.h"
#include "hone/hub/with_curl/hub_api.h"
#include "hone/hub/with_curl/mail.h"

namespace hone::hub {
namespace {

constexpr std::chrono::seconds kNoticePatience{10};
constexpr size_t kLongestVerdict = 64 << 10;

std::string hmac_sha256(const std::string& key, const std::string& text) {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  HONE_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()), text.size(), bytes, &length),
             "OpenSSL refused to sign");
  return base64_of({reinterpret_cast<const char*>(bytes), length});
}

template <class Unit>
int64_t time_in() {
  return std::chrono::duration_cast<Unit>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string url_encoded(const std::string& text) {
  std::unique_ptr<char, decltype(&curl_free)> encoded(curl_easy_escape(nullptr, text.data(), static_cast<int>(text.size())), curl_free);
  return encoded ? encoded.get() : "";
}

// The signature of what Lark gets: the key is the time and the secret, the text is empty.
Json lark_message(const NoticeConfig& config, const std::string& text) {
  const auto now = time_in<std::chrono::seconds>();
  Json message{{"timestamp", now}, {"msg_type", "text"}, {"content", {{"text", text}}}};
  if (!config.secret.empty()) message["sign"] = hmac_sha256(fmt::format("{}\n{}", now, config.secret), "");
  return message;
}

// DingTalk's travels in the address. Other secrets than those it hands out for signing are words that a message must hold.
std::string dingtalk_address(const NoticeConfig& config) {
  if (!config.secret.starts_with("SEC")) return config.webhook;
  const auto now = time_in<std::chrono::milliseconds>();
  const auto sign = hmac_sha256(config.secret, fmt::format("{}\n{}", now, config.secret));
  return fmt::format("{}{}timestamp={}&sign={}", config.webhook, config.webhook.find('?') == std::string::npos ? '?' : '&', now, url_encoded(sign));
}

Json message_for(const NoticeConfig& config, const std::string& text) {
  switch (config.way) {
    case NoticeWay::lark:
      return lark_message(config, text);
    case NoticeWay::discord:
      return {{"content", text}};
    case NoticeWay::slack:
      return {{"text", text}};
    default:
      return {{"msgtype", "text"}, {"text", {{"content", text}}}};
  }
}

// These services answer 200 to what they refuse; the verdict is in the body.
void check_verdict(const HttpReply& reply) {
  auto verdict = parse_json(reply.body);
  if (!verdict || !verdict->is_object()) return;
  for (auto [code, words] : {std::pair{"code", "msg"}, std::pair{"errcode", "errmsg"}})
    if (verdict->contains(code) && (*verdict)[code].is_number_integer() && (*verdict)[code] != 0)
      throw std::runtime_error(fmt::format("the service answers {} ({})", (*verdict)[code].dump(), verdict->contains(words) ? (*verdict)[words].dump() : "no reason"));
}

void post_notice(const NoticeConfig& config, const std::string& text) {
  HttpRequest request{.url = config.way == NoticeWay::dingtalk ? dingtalk_address(config) : config.webhook,
                      .headers = {"Content-Type: application/json"},
                      .secrets = {},
                      .patience = kNoticePatience,
                      .method = "POST",
                      .body = message_for(config, text).dump(-1, ' ', false, Json::error_handler_t::replace),
                      .whole_time = kNoticePatience};
  try {
    check_verdict(Http().get(request, kLongestVerdict));
  } catch (const HttpFailure& failure) {
    if (failure.status) throw std::runtime_error(fmt::format("the service answers {}", failure.status));
    const std::string words = failure.what();
    throw std::runtime_error(words.find("://") == words.npos ? words : "the service answers in a way that is not understood");  // never with the address
  }
}

}  // namespace

void send_notice(const NoticeConfig& config, const Notice& notice) {
  const auto text = notice_text(notice, config.english);
  if (config.way == NoticeWay::email)
    return send_mail({.server = config.mail_server,
                      .port = config.mail_port,
                      .password = config.secret,
                      .sender = config.sender,
                      .receivers = config.receivers,
                      .subject = notice_subject(notice, config.english),
                      .text = text,
                      .html = notice_html(notice, config.english)},
                     kNoticePatience);
  if (config.way != NoticeWay::none) post_notice(config, text);
}

}  // namespace hone::hub
