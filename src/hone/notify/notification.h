// One notification about the end of a run, through the services of SwanLab's plugin. Two implementations: with libcurl, and
// without, which only reports an error.
#pragma once
#include <string>

namespace hone::notify {

enum class NotificationChannel { none, lark, dingtalk, wxwork, discord, slack, email };

struct NotificationConfig {
  NotificationChannel channel = NotificationChannel::none;
  std::string webhook;  // of a chat service. Anyone who has it can write there, so it is treated as a secret
  std::string secret;   // signs what Lark and DingTalk get; the password of a mail's sender
  std::string sender, receivers, mail_server;  // receivers: one address, or several with commas between
  int mail_port = 0;                           // 465 uses TLS from the first byte, any other starts it with STARTTLS
  bool english = false;                        // else Chinese
};

struct Notification {
  std::string error;  // empty: all went well
  std::string project, workspace, name, description;
  std::string place;  // where the run is
};

// The message in SwanLab's wording.
std::string notification_subject(const Notification& notice, bool english);
std::string notification_text(const Notification& notice, bool english);
std::string notification_html(const Notification& notice, bool english);

// Returns when the service has accepted the message; times out after ten seconds. Throws std::runtime_error with the reason,
// without any secret.
void send_notification(const NotificationConfig& config, const Notification& notice);

}  // namespace hone::notify
