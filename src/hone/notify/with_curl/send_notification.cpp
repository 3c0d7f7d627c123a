#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <chrono>

#include "hone/base/error.h"
#include "hone/base/json.h"
#include "hone/base/strings/base64.h"
#include "hone/base/strings/percent.h"
#include "hone/hub/with_curl/http.h"
#include "hone/notify/notification.h"
#include "hone/notify/with_curl/mail.h"

namespace hone::notify {
namespace {

using hub::Http;
using hub::HttpFailure;
using hub::HttpReply;
using hub::HttpRequest;

constexpr std::chrono::seconds kNotificationTimeout{10};
constexpr size_t kMaxReplyBytes = 64 << 10;

std::string hmac_sha256(const std::string& key, const std::string& text) {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  HONE_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
                  text.size(), bytes, &length),
             "OpenSSL refused to sign");
  return encode_base64({reinterpret_cast<const char*>(bytes), length});
}

template <class Unit>
int64_t time_in() {
  return std::chrono::duration_cast<Unit>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Lark's signature: the key is the time and the secret, the message is empty.
Json lark_message(const NotificationConfig& config, const std::string& text) {
  const auto now = time_in<std::chrono::seconds>();
  Json message{{"timestamp", now}, {"msg_type", "text"}, {"content", {{"text", text}}}};
  if (!config.secret.empty()) message["sign"] = hmac_sha256(fmt::format("{}\n{}", now, config.secret), "");
  return message;
}

// DingTalk's signature is part of the URL. Secrets that are not signing keys are keywords that a message must contain.
std::string dingtalk_address(const NotificationConfig& config) {
  if (!config.secret.starts_with("SEC")) return config.webhook;
  const auto now = time_in<std::chrono::milliseconds>();
  const auto sign = hmac_sha256(config.secret, fmt::format("{}\n{}", now, config.secret));
  return fmt::format("{}{}timestamp={}&sign={}", config.webhook, config.webhook.find('?') == std::string::npos ? '?' : '&', now,
                     percent_encoded(sign));
}

Json message_for(const NotificationConfig& config, const std::string& text) {
  switch (config.channel) {
    case NotificationChannel::lark:
      return lark_message(config, text);
    case NotificationChannel::discord:
      return {{"content", text}};
    case NotificationChannel::slack:
      return {{"text", text}};
    default:
      return {{"msgtype", "text"}, {"text", {{"content", text}}}};
  }
}

// These services respond to rejected requests with 200 too; the status is in the body.
void check_reply(const HttpReply& reply) {
  auto body = parse_json(reply.body);
  if (!body || !body->is_object()) return;
  for (auto [code, words] : {std::pair{"code", "msg"}, std::pair{"errcode", "errmsg"}})
    if (body->contains(code) && (*body)[code].is_number_integer() && (*body)[code] != 0)
      throw std::runtime_error(fmt::format("the service answers {} ({})", (*body)[code].dump(),
                                           body->contains(words) ? (*body)[words].dump() : "no reason"));
}

void post_notification(const NotificationConfig& config, const std::string& text) {
  HttpRequest request{.url = config.channel == NotificationChannel::dingtalk ? dingtalk_address(config) : config.webhook,
                      .headers = {"Content-Type: application/json"},
                      .secrets = {},
                      .read_timeout = kNotificationTimeout,
                      .method = "POST",
                      .body = message_for(config, text).dump(-1, ' ', false, Json::error_handler_t::replace),
                      .total_timeout = kNotificationTimeout};
  try {
    check_reply(Http().get(request, kMaxReplyBytes));
  } catch (const HttpFailure& failure) {
    if (failure.status) throw std::runtime_error(fmt::format("the service answers {}", failure.status));
    const std::string words = failure.what();
    throw std::runtime_error(words.find("://") == words.npos
                                 ? words
                                 : "the service sent a response that is not understood");  // never includes the address
  }
}

}  // namespace

void send_notification(const NotificationConfig& config, const Notification& notice) {
  const auto text = notification_text(notice, config.english);
  if (config.channel == NotificationChannel::email)
    return send_mail({.server = config.mail_server,
                      .port = config.mail_port,
                      .password = config.secret,
                      .sender = config.sender,
                      .receivers = config.receivers,
                      .subject = notification_subject(notice, config.english),
                      .text = text,
                      .html = notification_html(notice, config.english)},
                     kNotificationTimeout);
  if (config.channel != NotificationChannel::none) post_notification(config, text);
}

}  // namespace hone::notify
