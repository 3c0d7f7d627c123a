#include "hone/hub/listing.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "hone/base/json.h"
#include "hone/base/strings/lower_case.h"
#include "hone/base/strings/percent.h"

namespace hone::hub {
namespace {

constexpr uint64_t kLargestFile = uint64_t{1} << 50;

std::string text_of(const Json& object, const char* key) {
  auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

Result<uint64_t> size_of(const Json& object, const char* key, const std::string& path) {
  auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer() || *found < 0 || *found > kLargestFile)
    return error("the hub gives no size for \"{}\"", path);
  return found->get<uint64_t>();
}

// Checks common to both listings: a path inside its folder and a plausible size.
Result<RemoteFile> read_entry(const Json& entry, const char* path_key, const char* size_key) {
  auto name = text_of(entry, path_key);
  auto path = file_name_from_server(name);
  if (!path) return Error{path.error()};
  auto size = size_of(entry, size_key, name);
  if (!size) return Error{size.error()};
  return RemoteFile{.path = name, .size = *size, .sha256 = {}, .blob = {}};
}

Result<RemoteFile> read_tree_entry(const Json& entry) {
  auto file = read_entry(entry, "path", "size");
  if (!file) return file;
  if (auto lfs = entry.find("lfs"); lfs != entry.end() && lfs->is_object()) {
    file->sha256 = lower_case(text_of(*lfs, "oid"));
    auto size = size_of(*lfs, "size", file->path);
    if (!size) return Error{size.error()};
    file->size = *size;
  } else {
    file->blob = lower_case(text_of(entry, "oid"));
  }
  // It becomes a file name in the cache.
  bool known = file->sha256.empty() ? is_hex(file->blob, 40) : is_hex(file->sha256, 64);
  if (!known) return error("the hub gives no checksum for \"{}\"", file->path);
  return file;
}

Result<RemoteFile> read_modelscope_entry(const Json& entry) {
  auto file = read_entry(entry, entry.contains("Path") ? "Path" : "path", entry.contains("Size") ? "Size" : "size");
  if (!file) return file;
  file->sha256 = lower_case(text_of(entry, entry.contains("Sha256") ? "Sha256" : "sha256"));
  if (!file->sha256.empty() && !is_hex(file->sha256, 64)) return error("\"{}\" has a checksum that is not a SHA-256", file->path);
  return file;
}

std::string repo_path(const Repo& repo) { return (repo.kind == Kind::dataset ? "datasets/" : "") + repo.id; }
std::string_view plural(Kind kind) { return kind == Kind::model ? "models" : "datasets"; }

bool any_matches(const std::vector<std::string>& patterns, const std::string& path) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) { return matches(pattern, path); });
}

bool any_ends(const std::vector<RemoteFile>& files, std::string_view ending) {
  return std::any_of(files.begin(), files.end(), [&](const RemoteFile& file) { return file.path.ends_with(ending); });
}

}  // namespace

Result<std::string> read_commit(std::string_view json) {
  auto parsed = parse_json(json);
  if (!parsed) return error("the hub's response is not JSON: {}", parsed.error());
  auto commit = parsed->is_object() ? lower_case(text_of(*parsed, "sha")) : "";
  if (!is_hex(commit, 40)) return error("the hub's response names no commit");
  return commit;
}

Result<std::vector<RemoteFile>> read_tree(std::string_view json) {
  auto parsed = parse_json(json);
  if (!parsed) return error("the hub's file list is not JSON: {}", parsed.error());
  if (!parsed->is_array()) return error("the hub's file list is not a list");
  std::vector<RemoteFile> files;
  for (const auto& entry : *parsed) {
    if (!entry.is_object() || text_of(entry, "type") != "file") continue;
    auto file = read_tree_entry(entry);
    if (!file) return Error{file.error()};
    files.push_back(std::move(*file));
  }
  return files;
}

std::string next_page(std::string_view header) {
  // <https://…?cursor=…>; rel="next"
  for (size_t from = 0; from < header.size();) {
    auto open = header.find('<', from), close = header.find('>', open);
    if (open == header.npos || close == header.npos) return "";
    auto end = std::min(header.find(',', close), header.size());
    if (header.substr(close, end - close).find("rel=\"next\"") != header.npos)
      return std::string(header.substr(open + 1, close - open - 1));
    from = end + 1;
  }
  return "";
}

Result<FilePage> read_files(std::string_view json) {
  auto parsed = parse_json(json);
  if (!parsed) return error("the hub's file list is not JSON: {}", parsed.error());
  if (parsed->is_object() && parsed->contains("Success") && (*parsed)["Success"] == false)
    return error("the hub refuses: {}", text_of(*parsed, "Message"));
  const Json* data = parsed->is_object() && parsed->contains("Data") ? &(*parsed)["Data"] : &*parsed;
  if (data->is_object() && data->contains("Files")) data = &(*data)["Files"];
  if (data->is_null()) return FilePage{};
  if (!data->is_array()) return error("the hub's file list is not a list");
  FilePage page;
  page.entries = data->size();
  for (const auto& entry : *data) {
    if (!entry.is_object() || text_of(entry, "Type") == "tree" || text_of(entry, "type") == "tree") continue;
    auto file = read_modelscope_entry(entry);
    if (!file) return Error{file.error()};
    page.files.push_back(std::move(*file));
  }
  return page;
}

std::string revision_url(const Access& access, const Repo& repo) {
  return fmt::format("{}/api/{}/{}/revision/{}", access.endpoint, plural(repo.kind), repo.id, percent_encoded(repo.branch()));
}

std::string tree_address(const Access& access, const Repo& repo, const std::string& commit) {
  return fmt::format("{}/api/{}/{}/tree/{}?recursive=true&expand=false", access.endpoint, plural(repo.kind), repo.id, commit);
}

std::string files_address(const Access& access, const Repo& repo, int page) {
  auto base = fmt::format("{}/api/v1/{}/{}/repo/", access.endpoint, plural(repo.kind), repo.id);
  auto query = fmt::format("?Revision={}&Recursive=True", percent_encoded(repo.branch()));
  if (repo.kind == Kind::model) return base + "files" + query;
  return base + "tree" + query + fmt::format("&PageNumber={}&PageSize={}", page, kDatasetPage);
}

std::string file_url(const Access& access, const Repo& repo, const std::string& commit, const std::string& path) {
  if (access.site == Site::hugging_face)
    return fmt::format("{}/{}/resolve/{}/{}", access.endpoint, repo_path(repo), commit, percent_encoded(path, "/"));
  return fmt::format("{}/api/v1/{}/{}/repo?Revision={}&FilePath={}", access.endpoint, plural(repo.kind), repo.id,
                     percent_encoded(repo.branch()), percent_encoded(path));
}

std::string repo_url(const Access& access, const Repo& repo) {
  if (access.site == Site::hugging_face) return fmt::format("{}/{}", access.endpoint, repo_path(repo));
  return fmt::format("{}/{}/{}", access.endpoint, plural(repo.kind), repo.id);
}

bool matches(const std::string& pattern, const std::string& path) {
  auto whole = pattern.ends_with('/') ? pattern + "*" : pattern;
  return ::fnmatch(whole.c_str(), path.c_str(), FNM_NOESCAPE) == 0;
}

std::vector<std::string> default_ignore_patterns(const std::vector<RemoteFile>& files, Kind kind) {
  if (kind == Kind::dataset) return {};
  std::vector<std::string> unwanted{"*.zip",     "*.gguf", "*.pth", "*.pt", "consolidated*", "onnx/*", "*.safetensors.md",
                                    "*.msgpack", "*.onnx", "*.ot",  "*.h5"};
  if (any_ends(files, ".safetensors")) unwanted.insert(unwanted.end(), {"*.bin", "*.bin.index.json", "*.pkl", "*.ckpt"});
  return unwanted;
}

std::vector<RemoteFile> filter_files(const std::vector<RemoteFile>& files, const Patterns& patterns, Kind kind) {
  bool own = !patterns.include.empty() || !patterns.exclude.empty();
  auto unwanted = own ? patterns.exclude : default_ignore_patterns(files, kind);
  std::vector<RemoteFile> wanted;
  for (const auto& file : files)
    if ((patterns.include.empty() || any_matches(patterns.include, file.path)) && !any_matches(unwanted, file.path))
      wanted.push_back(file);
  return wanted;
}

bool only_pickled_weights(const std::vector<RemoteFile>& files) {
  bool pickled = any_ends(files, ".bin") || any_ends(files, ".pt") || any_ends(files, ".pth");
  return pickled && !any_ends(files, ".safetensors");
}

}  // namespace hone::hub
