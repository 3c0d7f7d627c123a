// Sends a mail by SMTP over libcurl.
#pragma once
#include <chrono>
#include <string>

namespace hone::notify {

struct Mail {
  std::string server;
  int port = 0;
  std::string password;  // of the sender; empty: the server takes mails without one
  std::string sender, receivers, subject, text, html;
};

// The mail as sent: two forms of the same content after headers, all of it ASCII.
std::string mail_source(const Mail& mail);

// A password is sent encrypted or not at all. Throws std::runtime_error.
void send_mail(const Mail& mail, std::chrono::seconds timeout);

}  // namespace hone::notify
