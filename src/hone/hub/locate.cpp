#include "hone/hub/locate.h"

#include <algorithm>
#include <cstdlib>

#include "hone/base/error.h"
#include "hone/base/file.h"

namespace hone::hub {
namespace {

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

fs::path home() { return setting("HOME").empty() ? fs::path("/") : fs::path(setting("HOME")); }

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
  return text;
}

// An id is "owner/name" in plain characters; anything else must not become part of a path.
bool is_id(const std::string& name) {
  auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.' || c == '/'; };
  return std::all_of(name.begin(), name.end(), plain) && name.find("..") == std::string::npos && !name.starts_with('/') &&
         std::count(name.begin(), name.end(), '/') == 1;
}

// models--Qwen--Qwen2-7B/refs/main names the snapshot; without refs a single snapshot is unambiguous.
std::optional<fs::path> hugging_face_snapshot(const std::string& id, Kind kind, const std::string& revision) {
  fs::path root = hugging_face_cache() / ((kind == Kind::model ? "models--" : "datasets--") + replace_all(id, "/", "--"));
  fs::path snapshots = root / "snapshots";
  if (!fs::is_directory(snapshots)) return {};
  std::string wanted = revision.empty() ? "main" : revision;
  if (fs::exists(snapshots / wanted)) return snapshots / wanted;
  fs::path ref = root / "refs" / wanted;
  if (fs::is_regular_file(ref)) {
    auto commit = read_file(ref);
    while (!commit.empty() && std::isspace(static_cast<unsigned char>(commit.back()))) commit.pop_back();
    if (commit.find('/') == std::string::npos && fs::is_directory(snapshots / commit)) return snapshots / commit;
  }
  if (!revision.empty()) return {};
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(snapshots)) found.push_back(entry.path());
  return found.size() == 1 ? std::optional(found[0]) : std::nullopt;
}

// ModelScope has written three layouts: <cache>/models/owner/name, <cache>/hub/models/…, <cache>/hub/…; dots in names as "___".
std::optional<fs::path> modelscope_folder(const std::string& id, Kind kind) {
  std::string part = kind == Kind::model ? "models" : "datasets";
  auto slash = id.find('/');
  std::string escaped = id.substr(0, slash + 1) + replace_all(id.substr(slash + 1), ".", "___");
  for (const fs::path& root : {modelscope_cache() / part, modelscope_cache() / "hub" / part, modelscope_cache() / "hub"})
    for (const auto& name : {id, escaped})
      if (fs::is_directory(root / name)) return root / name;
  return {};
}

}  // namespace

fs::path hugging_face_cache() {
  if (auto path = setting("HF_HUB_CACHE"); !path.empty()) return path;
  if (auto path = setting("HUGGINGFACE_HUB_CACHE"); !path.empty()) return path;
  if (auto path = setting("HF_HOME"); !path.empty()) return fs::path(path) / "hub";
  if (auto path = setting("XDG_CACHE_HOME"); !path.empty()) return fs::path(path) / "huggingface" / "hub";
  return home() / ".cache" / "huggingface" / "hub";
}

fs::path modelscope_cache() {
  if (auto path = setting("MODELSCOPE_CACHE"); !path.empty()) return path;
  return home() / ".cache" / "modelscope";
}

std::optional<fs::path> find_in_caches(const std::string& id, Kind kind, const std::string& revision) {
  if (!is_id(id)) return {};
  if (auto folder = modelscope_folder(id, kind)) return folder;
  return hugging_face_snapshot(id, kind, revision);
}

fs::path locate_model(const std::string& name, const std::string& revision) {
  if (name.empty()) throw UserError(ExitCode::usage, "no model given", "pass --model FOLDER, for example --model models/nano");
  if (fs::is_directory(name)) return name;
  if (fs::exists(name)) throw UserError(ExitCode::usage, name + ": is a file; --model expects a folder with config.json and weights");
  if (auto folder = find_in_caches(name, Kind::model, revision)) return *folder;
  if (!is_id(name)) throw UserError(ExitCode::usage, name + ": no such folder", "check the path; a model folder holds config.json and *.safetensors");
  throw UserError(ExitCode::usage,
                  fmt::format("{}: not a folder here, and not in the caches {} or {}", name, modelscope_cache().string(), hugging_face_cache().string()),
                  "download it with its hub's own tool, or pass the path of a folder that holds it");
}

}  // namespace hone::hub
