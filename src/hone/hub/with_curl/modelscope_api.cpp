#include <algorithm>
#include <array>

#include "hone/base/file.h"
#include "hone/base/strings/base64.h"
#include "hone/hub/with_curl/hub_api.h"

namespace hone::hub {
namespace {

// ModelScope's definition of large files: weights and archives by name, everything else by size.
bool sent_apart(const UploadFile& file) {
  constexpr uintmax_t kInline = 64 << 10;
  constexpr std::array<std::string_view, 8> kEndings = {".safetensors", ".bin",  ".model",   ".pt",
                                                        ".pth",         ".gguf", ".parquet", ".zip"};
  if (file.name.ends_with("README.md") || file.name.ends_with("configuration.json")) return false;
  return file.size > kInline ||
         std::ranges::any_of(kEndings, [&](std::string_view ending) { return file.name.ends_with(ending); });
}

class ModelScopeApi final : public HubApi {
 public:
  using HubApi::HubApi;

  std::string owner() override {
    throw UserError(ExitCode::usage, "`hub_model_id` names no owner, which ModelScope needs", "write `hub_model_id` owner/name");
  }

  void create(const Repo& repo, bool private_repo) override {
    if (exists(repo)) return;
    constexpr int kPrivate = 1, kPublic = 5;
    auto slash = repo.id.find('/');
    data_of(ask("POST", access_.endpoint + "/api/v1/models",
                {{"Path", repo.id.substr(0, slash)},
                 {"Name", repo.id.substr(slash + 1)},
                 {"Visibility", private_repo ? kPrivate : kPublic},
                 {"License", "Apache-2.0"}}));
  }

  void choose_modes(const Repo&, std::vector<UploadFile>& files) override {
    for (auto& file : files) file.large = sent_apart(file);
  }

  void send(const Repo& repo, const UploadFile& file) override {
    auto data = data_of(ask("POST", fmt::format("{}/api/v1/repos/models/{}/info/lfs/objects/batch", access_.endpoint, repo.id),
                            {{"operation", "upload"}, {"objects", {{{"oid", file.sha256}, {"size", file.size}}}}}));
    for (const auto& object : data.value("objects", Json::array())) {
      auto address = object.value("actions", Json::object()).value("upload", Json::object()).value("href", Json());
      if (!address.is_string()) continue;  // already on the hub
      put(address.get<std::string>(), file, 0, file.size,
          {"Authorization: Bearer " + access_.token, "Cookie: m_session_id=" + access_.token});
    }
  }

  std::string commit(const Repo& repo, const std::vector<UploadFile>& files, const std::string& message) override {
    Json actions = Json::array();
    for (const auto& file : files)
      actions.push_back({{"action", "create"},
                         {"path", file.name},
                         {"type", file.large ? "lfs" : "normal"},
                         {"size", file.size},
                         {"sha256", file.large ? file.sha256 : ""},
                         {"content", file.large ? "" : encode_base64(read_file(file.path))},
                         {"encoding", file.large ? "" : "base64"}});
    data_of(ask("POST", fmt::format("{}/api/v1/repos/models/{}/commit/{}", access_.endpoint, repo.id, repo.branch()),
                {{"commit_message", message}, {"actions", std::move(actions)}}));
    return fmt::format("{}/models/{}", access_.endpoint, repo.id);
  }

 private:
  bool exists(const Repo& repo) {
    try {
      ask("GET", fmt::format("{}/api/v1/models/{}", access_.endpoint, repo.id));
      return true;
    } catch (const HttpFailure& failure) {
      if (failure.status != 404) throw;
      return false;
    }
  }

  // Its responses contain a status of their own.
  static Json data_of(const Json& response) {
    if (response.value("Success", Json()) == false)
      throw HttpFailure(fmt::format("ModelScope refuses: {}", response.value("Message", "")));
    auto data = response.value("Data", Json::object());
    return data.is_object() ? data : Json::object();
  }
};

}  // namespace

std::unique_ptr<HubApi> make_modelscope_api(const Access& access) { return std::make_unique<ModelScopeApi>(access); }

}  // namespace hone::hub
