// Outputs of frozen towers, cached in files: one per image or recording. Several processes may share a folder; files are written
// atomically.
#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "hone/model/module.h"

namespace hone::model {

struct TowerCacheConfig {
  std::filesystem::path folder;
  size_t most_bytes = size_t{50} << 30;  // of all files; those used longest ago go first
};

class TowerCache {
 public:
  // Throws UserError if the folder cannot be created.
  explicit TowerCache(TowerCacheConfig config);
  ~TowerCache();  // logs the time that was saved
  TowerCache(const TowerCache&) = delete;

  // The tensors of `key` on `device`, or the result of `compute`, which is stored. A damaged file is written again.
  TensorList get(const std::string& key, at::Device device, const std::function<TensorList()>& compute);

  struct Counts {
    int64_t hits = 0, misses = 0, damaged = 0, evicted = 0;
    double seconds_saved = 0;  // computing time of the hits
  };
  const Counts& counts() const { return counts_; }

 private:
  TensorList load(const std::filesystem::path& path, at::Device device);  // empty: not there, or damaged
  void store(const std::filesystem::path& path, const TensorList& tensors, double seconds);
  void evict();

  TowerCacheConfig config_;
  size_t bytes_ = 0;
  bool writes_ = true;
  Counts counts_;
};

// Depends on every weight of the tower, its dtype and device, `settings`, and hone's version.
std::string tower_digest(const Module& tower, const std::string& settings);
// The digest of one medium as the tower reads it: of its rows and their layout.
std::string medium_digest(const std::string& tower, const Tensor& rows, const std::string& shape);

}  // namespace hone::model
