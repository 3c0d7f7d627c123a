// The URL of a server, and the certificates that a client trusts.
#pragma once
#include <string>

namespace hone::serve {

// http[s]://host[:port][/path]; requests are below path.
struct Url {
  bool tls = false;
  std::string host, port, base;
  static Url parse(const std::string& text, const char* option);  // throws UserError(usage)
  // For OpenAI's API: /v1 is appended to the path unless it ends with it.
  static Url parse_openai(const std::string& text, const char* option);
  std::string authority() const { return host.find(':') == std::string::npos ? host + ":" + port : "[" + host + "]:" + port; }
};

// PEM files; if empty, this machine's own.
struct TrustedCertificates {
  std::string file, folder;
};

}  // namespace hone::serve
