// Compiled constraints by their source, shared between requests; the least recently used are evicted first. Thread-safe.
#pragma once
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "hone/engine/constraints/token_automaton.h"

namespace hone::engine {

class ConstraintCache {
 public:
  ConstraintCache(size_t bytes, size_t entries) : most_bytes_(bytes), most_entries_(entries) {}

  // Null if there is none, or if a new request should compile its own.
  std::shared_ptr<const TokenAutomaton> find(const std::string& key);
  void keep(const std::string& key, std::shared_ptr<const TokenAutomaton> constraint);

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const TokenAutomaton> constraint;
  };
  void trim();
  void forget(std::list<Entry>::iterator entry);

  size_t most_bytes_, most_entries_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the last one used first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key_;
};

}  // namespace hone::engine
