#include "hone/hub/patterns.h"

#include <fnmatch.h>

#include <algorithm>

namespace hone::hub {
namespace {

bool any_matches(const std::vector<std::string>& patterns, const std::string& path) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) { return matches(pattern, path); });
}

bool any_ends(const std::vector<RemoteFile>& files, std::string_view ending) {
  return std::any_of(files.begin(), files.end(), [&](const RemoteFile& file) { return file.path.ends_with(ending); });
}

}  // namespace

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
