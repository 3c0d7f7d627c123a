#include "hone/hub/scan.h"

#include <algorithm>
#include <tuple>

#include "hone/base/file.h"
#include "hone/base/strings/replace_all.h"
#include "hone/hub/access.h"
#include "hone/hub/cache.h"

namespace hone::hub {
namespace {

std::vector<fs::path> folders_in(const fs::path& parent) {
  std::vector<fs::path> found;
  std::error_code error;
  for (auto entry = fs::directory_iterator(parent, fs::directory_options::skip_permission_denied, error);
       !error && entry != fs::directory_iterator(); entry.increment(error))
    if (entry->is_directory(error) && !entry->path().filename().string().starts_with('.')) found.push_back(entry->path());
  return found;
}

void measure(CachedRepo& repo, const fs::path& root) {
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(root, fs::directory_options::skip_permission_denied, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (entry->is_symlink(error) || !entry->is_regular_file(error)) continue;
    repo.bytes += entry->file_size(error);
    ++repo.files;
    repo.changed = std::max(repo.changed, entry->last_write_time(error));
  }
}

// `root` contains only this repository; the folder that commands use is found by the normal lookup.
void add(std::vector<CachedRepo>& found, const Repo& repo, const fs::path& root, const fs::path& cache) {
  auto place = find_place(repo, cache);
  if (!place && !fs::is_directory(root / "snapshots")) return;
  bool shadowed = place && !is_inside(root, place->snapshot);  // the same id in an older layout
  CachedRepo cached;
  cached.site = repo.site, cached.kind = repo.kind, cached.id = repo.id;
  cached.folder = place && !shadowed ? place->snapshot : root;
  for (const auto& snapshot : folders_in(root / "snapshots")) cached.revisions.push_back(snapshot.filename().string());
  std::sort(cached.revisions.begin(), cached.revisions.end());
  if (place && !shadowed)
    cached.missing = missing_files(*place, repo.kind);
  else if (!shadowed)
    cached.missing = {"which revision is meant"};
  measure(cached, root);
  if (cached.files > 0) found.push_back(std::move(cached));
}

std::string id_of_folder(std::string name) {
  if (auto cut = name.find("--"); cut != name.npos) name.replace(cut, 2, "/");
  return name;
}

void scan_hugging_face(std::vector<CachedRepo>& found, const fs::path& cache) {
  for (const auto& root : folders_in(cache)) {
    auto name = root.filename().string();
    for (auto [prefix, kind] : {std::pair{"models--", Kind::model}, std::pair{"datasets--", Kind::dataset}})
      if (auto id = name.starts_with(prefix) ? id_of_folder(name.substr(std::string_view(prefix).size())) : ""; is_repo_id(id))
        add(found, {Site::hugging_face, kind, id, ""}, root, cache);
  }
}

void scan_modelscope(std::vector<CachedRepo>& found, const fs::path& cache) {
  for (const fs::path& base : {cache, cache / "hub"})
    for (auto [part, kind] : {std::pair{"models", Kind::model}, std::pair{"datasets", Kind::dataset}})
      for (const auto& owner : folders_in(base / part)) {
        if (auto id = id_of_folder(owner.filename().string()); is_repo_id(id) && fs::is_directory(owner / "snapshots")) {
          add(found, {Site::modelscope, kind, id, ""}, owner, cache);
          continue;
        }
        for (const auto& name : folders_in(owner))
          if (auto id = owner.filename().string() + "/" + replace_all(name.filename().string(), "___", "."); is_repo_id(id))
            add(found, {Site::modelscope, kind, id, ""}, name, cache);
      }
}

}  // namespace

std::vector<CachedRepo> scan_caches() {
  std::vector<CachedRepo> found;
  scan_modelscope(found, cache_of(Site::modelscope));
  scan_hugging_face(found, cache_of(Site::hugging_face));
  std::sort(found.begin(), found.end(), [](const CachedRepo& a, const CachedRepo& b) {
    return std::tie(a.kind, a.id, a.site, a.folder) < std::tie(b.kind, b.id, b.site, b.folder);
  });
  return found;
}

}  // namespace hone::hub
