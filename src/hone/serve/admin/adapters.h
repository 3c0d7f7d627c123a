// The adapters that requests may name. I/O thread only.
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "hone/serve/http/message.h"

namespace hone::serve {

struct AdapterEntry {
  std::filesystem::path folder;
  int64_t created = 0;
  bool fixed = false;          // named on the command line: requests do not unload it
  std::string in_engine = {};  // its name in the engine; "": the same as in requests
};

class Adapters {
 public:
  // Without a root, requests may not load or unload adapters.
  Adapters(std::filesystem::path root, size_t most) : root_(std::move(root)), most_(most) {}

  bool knows(const std::string& name) const { return entries_.contains(name); }
  const std::map<std::string, AdapterEntry>& entries() const { return entries_; }
  void add(const std::string& name, AdapterEntry entry) { entries_[name] = std::move(entry); }
  void remove(const std::string& name) { entries_.erase(name); }

  void check_enabled() const;  // ApiError(403) when requests may not change adapters
  // The folder of a request: below the root, symlinks resolved. ApiError(400) otherwise, without revealing what exists outside.
  std::filesystem::path resolve(const std::string& path) const;
  static void check_name(const std::string& name);  // ApiError(400)

  // Reserves a slot while an adapter is loaded. Throws ApiError(409) if there is none.
  class LoadingSlot {
   public:
    explicit LoadingSlot(Adapters& owner);
    ~LoadingSlot() { --owner_.loading_; }
    LoadingSlot(const LoadingSlot&) = delete;

   private:
    Adapters& owner_;
  };

 private:
  std::filesystem::path root_;
  size_t most_, loading_ = 0;
  std::map<std::string, AdapterEntry> entries_;
};

}  // namespace hone::serve
