#include "hone/hub/access.h"

#include <cstdlib>

#include "hone/base/file.h"
#include "hone/base/strings/lower_case.h"
#include "hone/base/strings/trimmed.h"

namespace hone::hub {
namespace {

Config g_config;

class VariableReader {
 public:
  explicit VariableReader(const Variables& variables) : variables_(variables) {}

  std::string text(const char* name) const { return variables_ ? variables_(name).value_or("") : ""; }
  bool is_on(const char* name) const {
    const auto value = lower_case(text(name));
    return value == "1" || value == "on" || value == "yes" || value == "true";
  }
  std::string first_of(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (auto value = text(name); !value.empty()) return value;
    return "";
  }
  fs::path home() const { return text("HOME").empty() ? fs::path("/") : fs::path(text("HOME")); }
  fs::path without_tilde(const std::string& path) const {
    if (path == "~") return home();
    return path.starts_with("~/") ? home() / path.substr(2) : fs::path(path);
  }
  std::chrono::seconds timeout(const char* name) const {
    int seconds = std::atoi(text(name).c_str());
    return std::chrono::seconds(seconds > 0 ? seconds : 30);
  }

 private:
  const Variables& variables_;
};

std::string address(std::string text, const char* otherwise) {
  text = trimmed(text);
  if (text.empty()) text = otherwise;
  if (text.find("://") == text.npos) text = "https://" + text;
  while (text.ends_with('/')) text.pop_back();
  return text;
}

fs::path hugging_face_home(const VariableReader& user) {
  if (auto path = user.text("HF_HOME"); !path.empty()) return user.without_tilde(path);
  if (auto path = user.text("XDG_CACHE_HOME"); !path.empty()) return user.without_tilde(path) / "huggingface";
  return user.home() / ".cache" / "huggingface";
}

std::string hugging_face_token(const VariableReader& user) {
  if (user.is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return "";
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})
    if (auto token = trimmed(user.text(name)); !token.empty()) return token;
  auto named = user.text("HF_TOKEN_PATH");
  fs::path file = named.empty() ? hugging_face_home(user) / "token" : user.without_tilde(named);
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) ? trimmed(read_file(file)) : "";
}

Access hugging_face_access(const VariableReader& user) {
  auto cache = user.first_of({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
  return {.site = Site::hugging_face,
          .endpoint = address(user.text("HF_ENDPOINT"), "https://huggingface.co"),
          .token = hugging_face_token(user),
          .cache = cache.empty() ? hugging_face_home(user) / "hub" : user.without_tilde(cache),
          .read_timeout = user.timeout("HF_HUB_DOWNLOAD_TIMEOUT")};
}

Access modelscope_access(const VariableReader& user) {
  auto cache = user.text("MODELSCOPE_CACHE");
  return {.site = Site::modelscope,
          .endpoint = address(user.first_of({"MODELSCOPE_ENDPOINT", "MODELSCOPE_DOMAIN"}), "https://modelscope.cn"),
          // ModelScope's tools store a login in a pickle, which hone does not read.
          .token = trimmed(user.text("MODELSCOPE_API_TOKEN")),
          .cache = cache.empty() ? user.home() / ".cache" / "modelscope" : user.without_tilde(cache),
          .read_timeout = user.timeout("MODELSCOPE_DOWNLOAD_TIMEOUT")};
}

}  // namespace

UserSettings user_settings(const Variables& variables) {
  VariableReader user(variables);
  return {.modelscope = modelscope_access(user),
          .hugging_face = hugging_face_access(user),
          .offline = user.is_on("HF_HUB_OFFLINE") || user.is_on("TRANSFORMERS_OFFLINE"),
          .certificates = user.first_of({"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}),
          .home = user.home()};
}

void configure(const Config& config) { g_config = config; }
const Config& config() { return g_config; }

bool offline() { return g_config.user.offline; }

fs::path cache_of(Site site) { return access_to(site).cache; }

Access access_to(Site site) {
  auto access = site == Site::hugging_face ? g_config.user.hugging_face : g_config.user.modelscope;
  if (site != g_config.site) return access;  // a token is sent only to the hub it was given for
  if (!g_config.token.empty()) access.token = g_config.token;
  if (!g_config.cache.empty()) access.cache = g_config.cache;
  return access;
}

}  // namespace hone::hub
