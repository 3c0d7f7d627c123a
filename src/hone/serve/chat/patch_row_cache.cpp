#include "hone/serve/chat/patch_row_cache.h"

#include "hone/engine/prompt_images.h"

namespace hone::serve {
namespace {

std::string step_text(const media::ImageGeometry::Step& step) {
  auto text = fmt::format(" {} {} {} {}", step.to.width, step.to.height, static_cast<int>(step.filter), step.to_rgb);
  if (step.from)
    text += fmt::format(" {} {} {} {}", step.from->left, step.from->top, step.from->size.width, step.from->size.height);
  return text;
}

// The key covers everything that the rows depend on, except the server's settings.
std::string key_of(std::span<const data::Picture> pictures, size_t values) {
  std::string text = std::to_string(values);
  for (const auto& picture : pictures) {
    const auto& geometry = picture.geometry;
    text += fmt::format("\n{} {} {} {} {}", fmt::join(picture.numbers, ","), geometry.frames, geometry.grid_h, geometry.grid_w,
                        geometry.has_thumbnail);
    for (const auto& step : geometry.steps) text += step_text(step);
  }
  text += '\n' + pictures.front().source;
  for (const auto& picture : pictures)
    for (const auto& frame : picture.frames) text += '\n' + frame;
  return engine::keyed_digest(std::as_bytes(std::span(text)));
}

}  // namespace

std::optional<Error> PatchRowCache::fill(std::span<const data::Picture> pictures, std::span<float> rows) {
  const auto key = key_of(pictures, rows.size());
  std::promise<Rows> promise;
  if (const auto found = find_or_add(key, promise)) {
    const auto ready = found->get();
    if (!ready) return data::fill_patch_rows(pictures, rows);  // for its error
    std::ranges::copy(*ready, rows.begin());
    return std::nullopt;
  }
  try {
    auto problem = data::fill_patch_rows(pictures, rows);
    if (problem)
      forget(key);
    else
      keep(key, rows.size_bytes());
    promise.set_value(problem ? nullptr : std::make_shared<const std::vector<float>>(rows.begin(), rows.end()));
    return problem;
  } catch (...) {
    forget(key);
    promise.set_exception(std::current_exception());
    throw;
  }
}

std::optional<std::shared_future<PatchRowCache::Rows>> PatchRowCache::find_or_add(const std::string& key,
                                                                                  std::promise<Rows>& promise) {
  std::lock_guard lock(mutex_);
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->rows;
  }
  entries_.push_front({key, promise.get_future().share()});
  by_key_[key] = entries_.begin();
  return std::nullopt;
}

// Entries whose rows are not decoded yet stay, because other requests may be waiting for them.
void PatchRowCache::keep(const std::string& key, size_t bytes) {
  std::lock_guard lock(mutex_);
  by_key_.at(key)->bytes = bytes;
  bytes_ += bytes;
  for (auto entry = entries_.end(); bytes_ > most_bytes_ && entry != entries_.begin();)
    if ((--entry)->bytes > 0) erase(entry++);
}

void PatchRowCache::forget(const std::string& key) {
  std::lock_guard lock(mutex_);
  if (const auto found = by_key_.find(key); found != by_key_.end()) erase(found->second);
}

void PatchRowCache::erase(Entries::iterator entry) {
  bytes_ -= entry->bytes;
  by_key_.erase(entry->key);
  entries_.erase(entry);
}

}  // namespace hone::serve
