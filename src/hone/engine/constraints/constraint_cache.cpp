#include "hone/engine/constraints/constraint_cache.h"

namespace hone::engine {

std::shared_ptr<const TokenAutomaton> ConstraintCache::find(const std::string& key) {
  std::lock_guard lock(mutex_);
  trim();  // they grow while they are used
  auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  auto entry = found->second;
  if (entry->constraint->should_rebuild()) {
    forget(entry);
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, entry);
  return entry->constraint;
}

void ConstraintCache::keep(const std::string& key, std::shared_ptr<const TokenAutomaton> constraint) {
  std::lock_guard lock(mutex_);
  if (by_key_.contains(key)) return;  // two requests at the same time
  entries_.push_front({key, std::move(constraint)});
  by_key_.emplace(entries_.front().key, entries_.begin());
  trim();
}

void ConstraintCache::trim() {
  size_t bytes = 0, entries = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    auto next = std::next(entry);
    bytes += entry->key.size() + entry->constraint->bytes();
    if (bytes > most_bytes_ || ++entries > most_entries_) forget(entry);
    entry = next;
  }
}

void ConstraintCache::forget(std::list<Entry>::iterator entry) {
  by_key_.erase(entry->key);
  entries_.erase(entry);
}

}  // namespace hone::engine
