// Patch rows of the media of recent requests: each turn of a chat repeats the media of those before it, and several requests may
// ask about one image.
#pragma once
#include <future>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "hone/data/encode/pictures.h"

namespace hone::serve {

class PatchRowCache {
 public:
  explicit PatchRowCache(size_t most_bytes) : most_bytes_(most_bytes) {}
  PatchRowCache(const PatchRowCache&) = delete;

  // data::fill_patch_rows, but equal media are decoded once: calls at the same time wait for the first. Thread-safe.
  std::optional<Error> fill(std::span<const data::Picture> pictures, std::span<float> rows);

 private:
  using Rows = std::shared_ptr<const std::vector<float>>;  // null: the medium cannot be decoded
  struct Entry {
    std::string key;
    std::shared_future<Rows> rows;
    size_t bytes = 0;  // 0: not decoded yet
  };
  using Entries = std::list<Entry>;  // the one used last is the first

  // The entry's rows, or, if there is none, a new entry for the rows of `promise`.
  std::optional<std::shared_future<Rows>> find_or_add(const std::string& key, std::promise<Rows>& promise);
  void keep(const std::string& key, size_t bytes);
  void forget(const std::string& key);
  void erase(Entries::iterator entry);

  const size_t most_bytes_;
  std::mutex mutex_;
  Entries entries_;
  std::unordered_map<std::string, Entries::iterator> by_key_;
  size_t bytes_ = 0;
};

}  // namespace hone::serve
