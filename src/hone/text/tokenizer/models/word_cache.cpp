#include "hone/text/tokenizer/models/word_cache.h"

#include <algorithm>
#include <memory>

namespace hone::text::tokenizer {

WordCache& WordCache::of_thread(uint64_t tokenizer_number) {
  constexpr size_t kMaxCaches = 4;  // a thread rarely uses more tokenizers than this at a time
  thread_local std::vector<std::unique_ptr<WordCache>> caches;
  auto found = std::find_if(caches.begin(), caches.end(), [&](auto& cache) { return cache->owner_ == tokenizer_number; });
  if (found == caches.end()) {
    if (caches.size() == kMaxCaches) caches.pop_back();
    caches.insert(caches.begin(), std::unique_ptr<WordCache>(new WordCache(tokenizer_number)));
    found = caches.begin();
  }
  return **found;
}

}  // namespace hone::text::tokenizer
