#include "hone/hub/cache.h"

#include <algorithm>
#include <set>

#include "hone/base/file.h"
#include "hone/base/json.h"
#include "hone/base/strings/replace_all.h"
#include "hone/hub/access.h"

namespace hone::hub {
namespace {

bool holds_something(const fs::path& folder) {
  std::error_code error;
  auto entry = fs::directory_iterator(folder, error);
  return !error && entry != fs::directory_iterator();
}

// A plain folder in ModelScope's cache is a repository if it directly contains files; its tools also keep prepared tables there,
// in deeper folders.
bool holds_files(const fs::path& folder) {
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator(); entry.increment(error))
    if (entry->is_regular_file(error)) return true;
  return false;
}

std::vector<fs::path> filled_folders_in(const fs::path& parent) {
  std::vector<fs::path> found;
  std::error_code error;
  for (auto entry = fs::directory_iterator(parent, error); !error && entry != fs::directory_iterator(); entry.increment(error))
    if (holds_something(entry->path())) found.push_back(entry->path());
  return found;
}

// models--Qwen--Qwen2-7B/refs/main names the snapshot; without refs, a single snapshot is unambiguous.
std::optional<CacheLocation> find_hugging_face(const Repo& repo, const fs::path& cache) {
  fs::path root = cache / hugging_face_folder(repo), snapshots = root / "snapshots";
  if (!fs::is_directory(snapshots)) return {};
  auto wanted = repo.branch();
  if (holds_something(snapshots / wanted)) return CacheLocation{root, snapshots / wanted, true};
  if (fs::path ref = root / "refs" / wanted; fs::is_regular_file(ref)) {
    auto commit = read_file(ref);
    while (!commit.empty() && std::isspace(static_cast<unsigned char>(commit.back()))) commit.pop_back();
    if (is_revision(commit) && commit.find('/') == commit.npos && holds_something(snapshots / commit))
      return CacheLocation{root, snapshots / commit, true};
  }
  if (wanted != "main") return {};
  auto found = filled_folders_in(snapshots);
  return found.size() == 1 ? std::optional(CacheLocation{root, found[0], true}) : std::nullopt;
}

struct ModelScopePaths {
  std::vector<fs::path> preferred;  // its current tools look here before the snapshots
  fs::path repo;                    // <cache>/models/owner--name
  std::vector<fs::path> older;
};

// ModelScope has had five layouts; dots in names were once written "___".
ModelScopePaths modelscope_paths(const Repo& repo, const fs::path& cache) {
  auto slash = repo.id.find('/');
  std::string owner = repo.id.substr(0, slash), name = repo.id.substr(slash + 1), escaped = replace_all(name, ".", "___");
  std::string part = repo.kind == Kind::model ? "models" : "datasets";
  ModelScopePaths paths{
      {cache / part / owner / escaped, cache / "hub" / part / owner / escaped}, cache / part / (owner + "--" + name), {}};
  paths.older = {cache / part / owner / name, cache / "hub" / part / owner / name};
  if (repo.kind == Kind::model) {
    for (const fs::path& root : {cache, cache / "hub"})
      for (const auto& spelled : {name, escaped}) paths.older.push_back(root / owner / spelled);
  }
  return paths;
}

std::optional<CacheLocation> find_modelscope(const Repo& repo, const fs::path& cache) {
  auto paths = modelscope_paths(repo, cache);
  bool main_branch = repo.branch() == "master";  // plain folders do not record their revision
  if (main_branch)
    for (const auto& folder : paths.preferred)
      if (holds_files(folder)) return CacheLocation{folder, folder};
  fs::path snapshots = paths.repo / "snapshots";
  for (const auto& name : main_branch ? std::vector<std::string>{"master", "main"} : std::vector{repo.branch()})
    if (holds_something(snapshots / name)) return CacheLocation{paths.repo, snapshots / name};
  if (!main_branch) return {};
  if (auto found = filled_folders_in(snapshots); found.size() == 1) return CacheLocation{paths.repo, found[0]};
  for (const auto& folder : paths.older)
    if (holds_files(folder)) return CacheLocation{folder, folder};
  return {};
}

bool has_file_like(const fs::path& folder, std::initializer_list<const char*> endings) {
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator(); entry.increment(error)) {
    auto name = entry->path().filename().string();
    bool matches = std::any_of(endings.begin(), endings.end(), [&](const char* ending) { return name.ends_with(ending); });
    if (matches && fs::exists(entry->path())) return true;
  }
  return false;
}

// A folder with a config, a model's or an adapter's, must contain all of its weights.
void miss_weights(const fs::path& folder, std::set<std::string>& missing) {
  if (fs::path index = folder / "model.safetensors.index.json"; fs::exists(index)) {
    auto parsed = parse_json(read_file(index));
    if (!parsed || !parsed->is_object() || !parsed->contains("weight_map") || !(*parsed)["weight_map"].is_object())
      return;  // the loader reports the problem
    for (const auto& [weight, shard] : (*parsed)["weight_map"].items())
      if (shard.is_string() && !fs::exists(folder / shard.get<std::string>())) missing.insert(shard.get<std::string>());
    return;
  }
  bool described = fs::exists(folder / "config.json") || fs::exists(folder / "adapter_config.json");
  if (described && !has_file_like(folder, {".safetensors", ".bin"})) missing.insert("*.safetensors");
}

// Hugging Face's tools record a commit's files before fetching them; hone links a snapshot when all are present.
void miss_listed(const CacheLocation& place, std::set<std::string>& missing) {
  fs::path tree = place.root / "trees" / (place.snapshot.filename().string() + ".json");
  if (!place.blobs || !fs::is_regular_file(tree)) return;
  auto parsed = parse_json(read_file(tree));
  if (!parsed || !parsed->is_object() || !parsed->contains("files") || !(*parsed)["files"].is_object()) return;
  for (const auto& [name, entry] : (*parsed)["files"].items())
    if (auto path = file_name_from_server(name); path && !fs::exists(place.snapshot / *path)) missing.insert(name);
}

}  // namespace

std::string hugging_face_folder(const Repo& repo) {
  return (repo.kind == Kind::model ? "models--" : "datasets--") + replace_all(repo.id, "/", "--");
}

std::optional<CacheLocation> find_place(const Repo& repo, const fs::path& cache) {
  if (!is_repo_id(repo.id) || !is_revision(repo.branch())) return {};
  return repo.site == Site::modelscope ? find_modelscope(repo, cache) : find_hugging_face(repo, cache);
}

CacheLocation new_place(const Repo& repo, const fs::path& cache, const std::string& commit) {
  if (repo.site == Site::hugging_face) {
    fs::path root = cache / hugging_face_folder(repo);
    return {root, root / "snapshots" / commit, true};
  }
  // Its tools prefer an older folder to any snapshot, so an existing one is updated rather than shadowed.
  auto paths = modelscope_paths(repo, cache);
  if (repo.branch() == "master")
    for (const auto& folder : paths.preferred)
      if (holds_files(folder)) return {folder, folder};
  return {paths.repo, paths.repo / "snapshots" / repo.branch()};
}

std::vector<std::string> missing_files(const CacheLocation& place, Kind kind, const fs::path& inside) {
  std::set<std::string> missing;
  if (kind == Kind::model)
    miss_weights(place.snapshot / inside, missing);
  else
    miss_listed(place, missing);
  if (!place.blobs && fs::exists(place.unfinished())) missing.insert("files of an interrupted download");
  return {missing.begin(), missing.end()};
}

fs::path download_note(const fs::path& folder) { return folder / ".hone" / "downloaded"; }

std::optional<fs::path> download_root(const fs::path& folder) {
  const auto& user = config().user;
  for (const auto& cache :
       {cache_of(Site::modelscope), cache_of(Site::hugging_face), user.modelscope.cache, user.hugging_face.cache})
    if (is_inside(cache, folder)) return fs::weakly_canonical(cache);
  auto at = fs::weakly_canonical(fs::absolute(folder));
  for (std::error_code ignored;; at = at.parent_path()) {
    bool theirs = fs::is_directory(at / ".cache/huggingface/download", ignored) || fs::exists(at / ".msc", ignored);
    if (theirs || fs::exists(download_note(at), ignored)) return at;
    if (at == at.root_path()) return {};
  }
}

}  // namespace hone::hub
