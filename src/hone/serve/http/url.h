// The address of a server with OpenAI's interface.
#pragma once
#include <string>

namespace hone::serve {

// http[s]://host[:port][/path]; the interface is below path, with /v1 put behind it unless it ends so.
struct Url {
  bool tls = false;
  std::string host, port, base;
  static Url parse(const std::string& text, const char* option);  // throws UserError(usage)
  std::string authority() const { return host.find(':') == std::string::npos ? host + ":" + port : "[" + host + "]:" + port; }
};

}  // namespace hone::serve
