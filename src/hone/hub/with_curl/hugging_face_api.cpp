#include <map>

#include "hone/base/file.h"
#include "hone/base/strings/base64.h"
#include "hone/hub/with_curl/hub_api.h"

namespace hone::hub {
namespace {

std::string first_bytes(const fs::path& path, size_t count) {
  MappedFile file(path);
  return std::string(file.text().substr(0, count));
}

class HuggingFaceApi final : public HubApi {
 public:
  using HubApi::HubApi;

  std::string owner() override {
    auto name = ask("GET", access_.endpoint + "/api/whoami-v2").value("name", Json());
    if (!name.is_string()) throw HttpFailure("the hub does not say whose token this is");
    return name.get<std::string>();
  }

  void create(const Repo& repo, bool private_repo) override {
    auto slash = repo.id.find('/');
    Json body{{"name", repo.id.substr(slash + 1)},
              {"organization", repo.id.substr(0, slash)},
              {"type", "model"},
              {"private", private_repo}};
    allow(409, [&] { ask("POST", access_.endpoint + "/api/repos/create", body); });
    if (repo.branch() == "main") return;
    allow(409, [&] {
      ask("POST", fmt::format("{}/api/models/{}/branch/{}", access_.endpoint, repo.id, repo.branch()), Json::object());
    });
  }

  void choose_modes(const Repo& repo, std::vector<UploadFile>& files) override {
    constexpr size_t kSample = 512, kAtOnce = 256;
    std::map<std::string, bool> large;
    for (size_t first = 0; first < files.size(); first += kAtOnce) {
      Json list = Json::array();
      for (size_t i = first; i < std::min(first + kAtOnce, files.size()); ++i)
        list.push_back(
            {{"path", files[i].name}, {"sample", encode_base64(first_bytes(files[i].path, kSample))}, {"size", files[i].size}});
      auto response = ask("POST", fmt::format("{}/api/models/{}/preupload/{}", access_.endpoint, repo.id, repo.branch()),
                          {{"files", std::move(list)}});
      for (const auto& file : response.value("files", Json::array()))
        if (file.is_object()) large[file.value("path", "")] = file.value("uploadMode", "") == "lfs";
    }
    for (auto& file : files) file.large = large[file.name];
  }

  void send(const Repo& repo, const UploadFile& file) override {
    Json body{{"operation", "upload"},
              {"transfers", {"basic", "multipart"}},
              {"objects", {{{"oid", file.sha256}, {"size", file.size}}}},
              {"hash_algo", "sha256"},
              {"ref", {{"name", repo.branch()}}}};
    auto request = authorized("POST", fmt::format("{}/{}.git/info/lfs/objects/batch", access_.endpoint, repo.id));
    request.headers = {"Accept: application/vnd.git-lfs+json", "Content-Type: application/vnd.git-lfs+json"};
    request.body = body.dump();
    auto response = ask(std::move(request));
    for (const auto& object : response.value("objects", Json::array())) {
      auto actions = object.value("actions", Json::object());
      if (!actions.is_object() || !actions.contains("upload")) continue;  // already on the hub
      put_object(actions["upload"], file);
      if (actions.contains("verify"))
        ask("POST", actions["verify"].value("href", ""), {{"oid", file.sha256}, {"size", file.size}});
    }
  }

  std::string commit(const Repo& repo, const std::vector<UploadFile>& files, const std::string& message) override {
    std::string lines = Json{{"key", "header"}, {"value", {{"summary", message}, {"description", ""}}}}.dump() + "\n";
    for (const auto& file : files) {
      Json entry =
          file.large
              ? Json{{"key", "lfsFile"},
                     {"value", {{"path", file.name}, {"algo", "sha256"}, {"oid", file.sha256}, {"size", file.size}}}}
              : Json{{"key", "file"},
                     {"value", {{"content", encode_base64(read_file(file.path))}, {"path", file.name}, {"encoding", "base64"}}}};
      lines += entry.dump() + "\n";
    }
    auto request = authorized("POST", fmt::format("{}/api/models/{}/commit/{}", access_.endpoint, repo.id, repo.branch()));
    request.headers = {"Content-Type: application/x-ndjson"};
    request.body = std::move(lines);
    ask(std::move(request));
    return fmt::format("{}/{}", access_.endpoint, repo.id);
  }

 private:
  template <class Call>
  static void allow(long status, Call call) {
    try {
      call();
    } catch (const HttpFailure& failure) {
      if (failure.status != status) throw;
    }
  }

  // A single upload, or parts with URLs from the hub: "00001", "00002" …
  void put_object(const Json& action, const UploadFile& file) {
    auto header = action.value("header", Json::object());
    auto whole = action.value("href", "");
    if (!header.is_object() || !header.contains("chunk_size")) {
      put(whole, file, 0, file.size, {});
      return;
    }
    auto size = static_cast<uintmax_t>(
        std::stoull(header["chunk_size"].is_string() ? header["chunk_size"].get<std::string>() : header["chunk_size"].dump()));
    if (size == 0) throw HttpFailure("the hub asks for parts of no size");
    Json parts = Json::array();
    for (uintmax_t begin = 0, number = 1; begin < file.size; begin += size, ++number) {
      std::string address;
      for (const auto& [key, value] : header.items())
        if (key.find_first_not_of("0123456789") == key.npos && std::stoull(key) == number && value.is_string())
          address = value.get<std::string>();
      if (address.empty()) throw HttpFailure(fmt::format("the hub gives no address for part {}", number));
      auto reply = put(address, file, begin, std::min(size, file.size - begin), {});
      parts.push_back({{"partNumber", number}, {"etag", reply.header("etag")}});
    }
    HttpRequest done{.url = whole,
                     .headers = {"Content-Type: application/vnd.git-lfs+json"},
                     .secrets = {},
                     .read_timeout = access_.read_timeout,
                     .method = "POST"};
    done.body = Json{{"oid", file.sha256}, {"parts", std::move(parts)}}.dump();
    ask(std::move(done));
  }
};

}  // namespace

std::unique_ptr<HubApi> make_hugging_face_api(const Access& access) { return std::make_unique<HuggingFaceApi>(access); }

}  // namespace hone::hub
