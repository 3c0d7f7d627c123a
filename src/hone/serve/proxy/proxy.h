// The chat page in front of another OpenAI-compatible server: forwards requests; no model is loaded here.
#pragma once
#include <string>

#include "hone/serve/http/url.h"
#include "hone/serve/page/page_config.h"
#include "hone/serve/server.h"

namespace hone::serve {

struct ProxyConfig {
  std::string base_url;  // http://127.0.0.1:8000/v1
  std::string key;       // of that server; empty: none
  PageConfig look;
  TrustedCertificates trusted;
};

// Queries that server for its models first: throws UserError(usage) if it cannot be reached. Then serves until SIGTERM or SIGINT.
int run_proxy(const ProxyConfig& relay, const ServerConfig& config);

}  // namespace hone::serve
