// From options to how a model is served. The only code that reads the server's options.
#pragma once
#include <string>
#include <vector>

#include "hone/cli/options.h"
#include "hone/serve/proxy/proxy.h"
#include "hone/serve/server.h"

namespace hone::cli {

// `page` is true for the commands that are about the chat page: its port is Gradio's.
serve::ServerConfig server_config(const Options& options, bool page);

// Title and language of the chat page.
serve::PageConfig page_look(const Options& options);
// Whose certificates other servers may have: SSL_CERT_FILE and SSL_CERT_DIR, as OpenSSL's own programs.
serve::TrustedCertificates trusted_certificates();
// --base_url: the server that the page is for instead of a model.
serve::ProxyConfig proxy_config(const Options& options);

// --adapters: "name=folder" becomes a model of its own, a plain folder changes the served one.
struct AdapterSpec {
  std::string name;  // "" for a plain folder
  std::string folder;
};
std::vector<AdapterSpec> adapter_words(const Options& options);

// What requests call the model. LLaMA-Factory's clients may call it anything.
struct ServedName {
  std::string name;
  bool any = false;
};
ServedName served_name(const Options& options, const std::string& model);

}  // namespace hone::cli
