#include "hone/hub/locate.h"

#include <cstdlib>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/hub/cache.h"
#include "hone/hub/download.h"
#include "hone/hub/nearby.h"

namespace hone::hub {
namespace {

// The chosen hub's cache comes first, then the other's.
std::vector<Repo> repos_for(const std::string& id, Kind kind, const std::string& revision, Site site) {
  return {{site, kind, id, revision}, {other_site(site), kind, id, revision}};
}

std::optional<fs::path> whole_in_caches(const std::string& id, Kind kind, const std::string& revision, Site site) {
  for (const auto& repo : repos_for(id, kind, revision, site))
    if (auto place = find_place(repo, cache_of(repo.site)); place && missing_files(*place, kind).empty()) return place->snapshot;
  return {};
}

// ", but there without model-00002-of-00004.safetensors": what is missing in a cache.
std::string found_in_part(const std::string& id, Kind kind, const std::string& revision, Site site) {
  for (const auto& repo : repos_for(id, kind, revision, site))
    if (auto place = find_place(repo, cache_of(repo.site)))
      if (auto missing = missing_files(*place, kind); !missing.empty())
        return fmt::format("; {} lacks {}{}", place->snapshot.string(), missing[0],
                           missing.size() > 1 ? fmt::format(" and {} more", missing.size() - 1) : "");
  return "";
}

fs::path fetched(const std::string& id, Kind kind, const std::string& revision, Site site, const Patterns& patterns) {
  auto caches = fmt::format("{} or {}", cache_of(site).string(), cache_of(other_site(site)).string());
  if (offline() || !can_download())
    throw UserError(ExitCode::usage,
                    fmt::format("{}: not in the caches {}{}; {}", id, caches, found_in_part(id, kind, revision, site),
                                offline() ? "HF_HUB_OFFLINE forbids to fetch it" : "this build cannot fetch it"),
                    "put it there or pass a folder");
  if (!is_revision(Repo{site, kind, id, revision}.branch()))
    throw UserError(ExitCode::usage, fmt::format("\"{}\" is not a branch, tag or commit", revision));
  return download({.repo = {site, kind, id, revision}, .patterns = patterns, .local_dir = {}, .to_be_loaded = true});
}

fs::path expanded(const std::string& name) {
  return name.starts_with("~/") ? config().user.home / name.substr(2) : fs::path(name);
}

struct Wanted {
  const char* option;    // the setting that contains it
  const char* contents;  // "config.json and *.safetensors"
};

// "id:subfolder" names a folder of a repository; only its files are downloaded.
fs::path in_repository(const std::string& id, const std::string& subfolder, const std::string& revision, const Wanted& wanted) {
  auto inside = subfolder.empty() ? Result<fs::path>(fs::path()) : file_name_from_server(subfolder);
  if (!inside) throw UserError(ExitCode::usage, fmt::format("{} {}:{}: no name of a folder", wanted.option, id, subfolder));
  auto below = [&](const fs::path& snapshot) { return inside->empty() ? snapshot : snapshot / *inside; };
  for (const auto& repo : repos_for(id, Kind::model, revision, config().site)) {
    auto place = find_place(repo, cache_of(repo.site));
    if (place && fs::is_directory(below(place->snapshot)) && missing_files(*place, Kind::model, *inside).empty())
      return below(place->snapshot);
  }
  if (auto meant = nearest_path(id); !meant.empty())
    throw UserError(ExitCode::usage,
                    fmt::format("{} {}: there is no such folder, and no cache holds a model of that name", wanted.option, id),
                    fmt::format("did you mean {}; `hone download {}` fetches it from a hub", meant.string(), id));
  Patterns patterns;
  if (!subfolder.empty()) patterns.include = {subfolder + "/*"};
  return below(fetched(id, Kind::model, revision, config().site, patterns));
}

fs::path locate(const std::string& name, const std::string& revision, const Wanted& wanted) {
  if (fs::path path = expanded(name); fs::is_directory(path))
    return path;
  else if (fs::exists(path))
    throw UserError(ExitCode::usage,
                    fmt::format("{}: is a file; {} expects a folder with {}", name, wanted.option, wanted.contents));
  auto colon = std::min(name.find(':'), name.size());
  auto id = name.substr(0, colon), subfolder = colon < name.size() ? name.substr(colon + 1) : "";
  if (fs::is_directory(fs::path(id) / subfolder)) return fs::path(id) / subfolder;
  if (!is_repo_id(id))
    throw UserError(ExitCode::usage, name + ": no such folder",
                    spelling_hint(id, fmt::format("check the path; it should hold {}", wanted.contents)));
  auto folder = in_repository(id, subfolder, revision, wanted);
  log::info("{}: {}", name, folder.string());
  return folder;
}

}  // namespace

std::optional<fs::path> find_in_caches(const std::string& id, Kind kind, const std::string& revision) {
  return whole_in_caches(id, kind, revision, config().site);
}

fs::path locate_model(const std::string& name, const std::string& revision) {
  if (name.empty()) throw UserError(ExitCode::usage, "no model given", "pass `model` FOLDER, for example `model` models/nano");
  return locate(name, revision, {"`model`", "config.json and *.safetensors"});
}

fs::path locate_adapter(const std::string& name, const std::string& revision) {
  return locate(name, revision, {"`adapters`", "adapter_config.json and adapter_model.safetensors"});
}

fs::path locate_dataset(const std::string& id, Site site) {
  if (!is_repo_id(id))
    throw UserError(ExitCode::usage, fmt::format("dataset \"{}\" is not a local file or folder", id), "check the path");
  if (!config().refresh)
    if (auto folder = whole_in_caches(id, Kind::dataset, "", site)) return *folder;
  return fetched(id, Kind::dataset, "", site, {});
}

}  // namespace hone::hub
