// How this user reaches a hub: address, token, cache folder, by the variables of the hubs' own tools.
#pragma once
#include <chrono>
#include <filesystem>
#include <string>

#include "hone/hub/repo.h"

namespace hone::hub {

// What the command line says; set once when a command starts.
struct Config {
  Site site = Site::modelscope;  // asked for what no cache holds
  std::string token;             // of that site; beats the environment's
  std::filesystem::path cache;   // of that site; beats its own folder
  bool refresh = false;          // datasets: ask the hub although a cache holds them
};
void configure(const Config& config);
const Config& config();

struct Access {
  Site site = Site::modelscope;
  std::string endpoint;  // "https://huggingface.co", without a slash at the end
  std::string token;
  std::filesystem::path cache;
  std::chrono::seconds read_timeout{30};  // without a byte
};
Access access_to(Site site);

// HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE: no connection is opened, to either hub.
bool offline();

// The caches of this user, most specific setting first: HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME; MODELSCOPE_CACHE.
std::filesystem::path hugging_face_cache();
std::filesystem::path modelscope_cache();
// The cache a site is looked up in and written to: the command line's, else the above.
std::filesystem::path cache_of(Site site);

}  // namespace hone::hub
