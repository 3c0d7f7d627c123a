#include "hone/serve/http/url.h"

#include "hone/base/error.h"

namespace hone::serve {

Url Url::parse(const std::string& text, const char* option) {
  auto fail = [&]() -> Url {
    throw UserError(ExitCode::usage, fmt::format("--{} {}: not an address", option, text), "http://127.0.0.1:8000");
  };
  Url url;
  std::string_view rest = text;
  if (rest.starts_with("https://"))
    url.tls = true, rest.remove_prefix(8);
  else if (rest.starts_with("http://"))
    rest.remove_prefix(7);
  else
    return fail();
  auto slash = std::min(rest.find('/'), rest.size());
  auto authority = rest.substr(0, slash);
  std::string path(rest.substr(slash));
  while (path.ends_with('/')) path.pop_back();
  auto colon = authority.rfind(':');
  bool has_port = colon != authority.npos && authority.find(']', colon) == authority.npos;
  url.host = authority.substr(0, has_port ? colon : authority.npos);
  url.port = has_port ? std::string(authority.substr(colon + 1)) : url.tls ? "443" : "80";
  if (url.host.starts_with('[') && url.host.ends_with(']')) url.host = url.host.substr(1, url.host.size() - 2);
  if (url.host.empty() || url.port.empty() || url.port.find_first_not_of("0123456789") != url.port.npos ||
      text.find_first_of(" \r\n\t?#") != text.npos)
    return fail();
  url.base = path;
  return url;
}

Url Url::parse_openai(const std::string& text, const char* option) {
  auto url = parse(text, option);
  if (!url.base.ends_with("/v1")) url.base += "/v1";
  return url;
}

}  // namespace hone::serve
