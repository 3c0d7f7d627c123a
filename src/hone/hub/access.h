// Access to a hub: URL, token, cache folder.
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "hone/hub/repo.h"

namespace hone::hub {

struct Access {
  Site site = Site::modelscope;
  std::string endpoint;  // "https://huggingface.co", without a slash at the end
  std::string token;
  std::filesystem::path cache;
  std::chrono::seconds read_timeout{30};  // without a byte
};

// Settings common to all hubs.
struct UserSettings {
  Access modelscope, hugging_face;
  bool offline = false;        // no connection is opened, to either hub
  std::string certificates;    // a file of them to trust instead of the system's; empty: none
  std::filesystem::path home;  // what "~" expands to
};
// By the variables of the hubs' own tools, most specific first: HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, HF_ENDPOINT, HF_TOKEN …;
// MODELSCOPE_CACHE, MODELSCOPE_ENDPOINT …; HF_HUB_OFFLINE; REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE, SSL_CERT_FILE.
using Variables = std::function<std::optional<std::string>(const std::string& name)>;
UserSettings user_settings(const Variables& variables);

// Set once at program start; without it, hubs are accessed without a home folder or token.
struct Config {
  Site site = Site::modelscope;  // used for what no cache has
  std::string token;             // of that site; beats the user's
  std::filesystem::path cache;   // of that site; beats the user's
  bool refresh = false;          // datasets: ask the hub although a cache holds them
  UserSettings user = user_settings({});
};
void configure(const Config& config);
const Config& config();

Access access_to(Site site);
bool offline();
// The cache in which a site's repositories are looked up and stored.
std::filesystem::path cache_of(Site site);

}  // namespace hone::hub
