#include "hone/hub/access.h"

#include <cstdlib>

#include "hone/base/file.h"
#include "hone/base/trimmed.h"

namespace hone::hub {
namespace {

Config g_config;

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_on(const char* name) {
  auto value = setting(name);
  for (char& c : value) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return value == "1" || value == "on" || value == "yes" || value == "true";
}

fs::path home() { return setting("HOME").empty() ? fs::path("/") : fs::path(setting("HOME")); }

fs::path without_tilde(const std::string& path) {
  if (path == "~") return home();
  return path.starts_with("~/") ? home() / path.substr(2) : fs::path(path);
}

fs::path hugging_face_home() {
  if (auto path = setting("HF_HOME"); !path.empty()) return without_tilde(path);
  if (auto path = setting("XDG_CACHE_HOME"); !path.empty()) return without_tilde(path) / "huggingface";
  return home() / ".cache" / "huggingface";
}

std::string hugging_face_token() {
  if (is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return "";
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})
    if (auto token = trimmed(setting(name)); !token.empty()) return token;
  fs::path file = setting("HF_TOKEN_PATH").empty() ? hugging_face_home() / "token" : without_tilde(setting("HF_TOKEN_PATH"));
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) ? trimmed(read_file(file)) : "";
}

// Its tools keep a login in a pickled file, which hone does not read.
std::string modelscope_token() { return trimmed(setting("MODELSCOPE_API_TOKEN")); }

std::string address(std::string text, const char* otherwise) {
  text = trimmed(text);
  if (text.empty()) text = otherwise;
  if (text.find("://") == text.npos) text = "https://" + text;
  while (text.ends_with('/')) text.pop_back();
  return text;
}

std::string endpoint_of(Site site) {
  if (site == Site::hugging_face) return address(setting("HF_ENDPOINT"), "https://huggingface.co");
  auto own = setting("MODELSCOPE_ENDPOINT");
  return address(own.empty() ? setting("MODELSCOPE_DOMAIN") : own, "https://modelscope.cn");
}

std::chrono::seconds read_timeout_of(Site site) {
  int seconds =
      std::atoi(setting(site == Site::hugging_face ? "HF_HUB_DOWNLOAD_TIMEOUT" : "MODELSCOPE_DOWNLOAD_TIMEOUT").c_str());
  return std::chrono::seconds(seconds > 0 ? seconds : 30);
}

}  // namespace

void configure(const Config& config) { g_config = config; }
const Config& config() { return g_config; }

bool offline() { return is_on("HF_HUB_OFFLINE") || is_on("TRANSFORMERS_OFFLINE"); }

fs::path hugging_face_cache() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (auto path = setting(name); !path.empty()) return without_tilde(path);
  return hugging_face_home() / "hub";
}

fs::path modelscope_cache() {
  if (auto path = setting("MODELSCOPE_CACHE"); !path.empty()) return without_tilde(path);
  return home() / ".cache" / "modelscope";
}

fs::path cache_of(Site site) {
  if (site == g_config.site && !g_config.cache.empty()) return g_config.cache;
  return site == Site::modelscope ? modelscope_cache() : hugging_face_cache();
}

Access access_to(Site site) {
  auto own = site == Site::hugging_face ? hugging_face_token() : modelscope_token();
  bool given = site == g_config.site && !g_config.token.empty();  // a token goes to the hub it was given for, and to no other
  return {site, endpoint_of(site), given ? g_config.token : own, cache_of(site), read_timeout_of(site)};
}

}  // namespace hone::hub
