// From options to the server's config. The only code that reads the server's options.
#pragma once
#include <string>
#include <vector>

#include "hone/cli/options.h"
#include "hone/serve/proxy/proxy.h"
#include "hone/serve/server.h"

namespace hone::cli {

// `page` is true for commands centered on the chat page: its port is Gradio's.
serve::ServerConfig server_config(const Options& options, bool page);

// Title and language of the chat page.
serve::PageConfig page_look(const Options& options);
// Trusted certificates for outgoing connections: SSL_CERT_FILE and SSL_CERT_DIR, as in OpenSSL's own programs.
serve::TrustedCertificates trusted_certificates();
// --base_url: the server that the page talks to, instead of a model.
serve::ProxyConfig proxy_config(const Options& options);

// --adapters: "name=folder" becomes a separate model, a plain folder changes the served one.
struct AdapterSpec {
  std::string name;  // "" for a plain folder
  std::string folder;
};
std::vector<AdapterSpec> adapter_words(const Options& options);

// The model's name in requests. LLaMA-Factory's clients may use any name.
struct ServedName {
  std::string name;
  bool any = false;
};
ServedName served_name(const Options& options, const std::string& model);

}  // namespace hone::cli
