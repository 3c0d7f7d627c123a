#include "hone/tinker/api/futures.h"

#include <boost/asio/post.hpp>

#include "hone/tinker/state/store.h"

namespace hone::tinker {

std::shared_ptr<serve::Signal> Futures::watch(const std::string& id) {
  auto signal = std::make_shared<serve::Signal>(io_.get_executor());
  std::lock_guard lock(mutex_);
  watchers_.emplace(id, signal);
  return signal;
}

void Futures::notify(const std::string& id) {
  std::vector<std::shared_ptr<serve::Signal>> signals;
  {
    std::lock_guard lock(mutex_);
    auto [first, last] = watchers_.equal_range(id);
    for (auto each = first; each != last; ++each)
      if (auto signal = each->second.lock()) signals.push_back(std::move(signal));
    watchers_.erase(first, last);
  }
  asio::post(io_, [signals = std::move(signals)] {
    for (const auto& signal : signals) signal->notify();
  });
}

void Futures::notify_all() {
  std::vector<std::string> ids;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, signal] : watchers_) ids.push_back(id);
  }
  for (const auto& id : ids) notify(id);
}

std::optional<bool> Futures::add_sample(const std::string& id, const std::string& owner, size_t most) {
  std::lock_guard lock(mutex_);
  if (samples_.contains(id)) return false;
  if (unfinished_[owner] >= most) return std::nullopt;
  ++unfinished_[owner];
  samples_[id].owner = owner;
  return true;
}

void Futures::finish_sample(const std::string& id, Outcome outcome) {
  {
    std::lock_guard lock(mutex_);
    auto found = samples_.find(id);
    if (found == samples_.end()) return;
    --unfinished_[found->second.owner];
    found->second.outcome = std::move(outcome);
    found->second.finished = unix_seconds();
    found->second.done = true;
  }
  notify(id);
}

std::optional<Futures::Sample> Futures::sample(const std::string& id, const std::string& owner) {
  std::lock_guard lock(mutex_);
  auto found = samples_.find(id);
  if (found == samples_.end() || found->second.owner != owner) return std::nullopt;
  return found->second;
}

Futures::Counts Futures::counts() {
  std::lock_guard lock(mutex_);
  Counts counts;
  for (const auto& [owner, samples] : unfinished_) counts.samples += samples;
  for (const auto& [id, signal] : watchers_) counts.polls += signal.expired() ? 0 : 1;
  return counts;
}

void Futures::forget(double older_than) {
  const double before = unix_seconds() - older_than;
  std::lock_guard lock(mutex_);
  std::erase_if(samples_, [&](const auto& each) { return each.second.done && each.second.finished < before; });
  std::erase_if(watchers_, [](const auto& each) { return each.second.expired(); });
  std::erase_if(unfinished_, [](const auto& each) { return each.second == 0; });
}

}  // namespace hone::tinker
