#include "hone/tinker/api/futures.h"

#include <boost/asio/post.hpp>
#include <set>

#include "hone/tinker/state/store.h"

namespace hone::tinker {
namespace {

// Samples without a session count as one session for each owner.
std::string session_of(const std::string& sample, const std::string& owner) {
  return sample.starts_with(kDirectSample) ? kDirectSample + owner : sample.substr(0, sample.find(":sample:"));
}

}  // namespace

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
  heard_of_[session_of(id, owner)] = serve::Clock::now();
  return true;
}

void Futures::finish_sample(const std::string& id, Outcome outcome) {
  {
    std::lock_guard lock(mutex_);
    auto found = samples_.find(id);
    if (found == samples_.end() || found->second.done) return;
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

void Futures::note_session(const std::string& session) {
  std::lock_guard lock(mutex_);
  if (auto found = heard_of_.find(session); found != heard_of_.end()) found->second = serve::Clock::now();
}

void Futures::note_poll(const std::string& id, const std::string& owner) {
  std::lock_guard lock(mutex_);
  auto found = samples_.find(id);
  if (found == samples_.end() || found->second.owner != owner) return;
  found->second.left.reset();
  heard_of_[session_of(id, owner)] = serve::Clock::now();
}

void Futures::note_disconnect(const std::string& id, const std::string& owner) {
  std::lock_guard lock(mutex_);
  if (auto found = samples_.find(id); found != samples_.end() && found->second.owner == owner)
    found->second.left = serve::Clock::now();
}

bool Futures::cancel_sample(const std::string& id, const std::string& owner) {
  {
    std::lock_guard lock(mutex_);
    const auto found = samples_.find(id);
    if (found == samples_.end() || found->second.owner != owner || found->second.done) return false;
    ++cancelled_;
  }
  finish_sample(id, failure("this sample was cancelled by its client", true));
  return true;
}

std::vector<std::string> Futures::cancel_session(const std::string& session) {
  const auto prefix = session + ":sample:";
  std::vector<std::string> ids;
  {
    std::lock_guard lock(mutex_);
    for (auto each = samples_.lower_bound(prefix); each != samples_.end() && each->first.starts_with(prefix); ++each)
      if (!each->second.done) ids.push_back(each->first);
    cancelled_ += static_cast<int64_t>(ids.size());
  }
  for (const auto& id : ids) finish_sample(id, failure("the session finished before this sample", true));
  return ids;
}

void Futures::drop_abandoned(std::chrono::duration<double> silence, const std::function<void(const std::string& id)>& cancel) {
  const auto before = serve::Clock::now() - std::chrono::duration_cast<serve::Clock::duration>(silence);
  std::lock_guard lock(mutex_);
  std::set<std::string> sessions;  // with samples that are not done
  for (auto each = samples_.begin(); each != samples_.end();) {
    const auto& [id, sample] = *each;
    const auto session = session_of(id, sample.owner);
    const bool is_abandoned = !sample.done && (heard_of_[session] < before || (sample.left && *sample.left < before));
    if (is_abandoned) {
      --unfinished_[sample.owner];
      ++cancelled_;
      cancel(id);
      each = samples_.erase(each);
    } else {
      if (!sample.done) sessions.insert(session);
      ++each;
    }
  }
  std::erase_if(heard_of_, [&](const auto& each) { return !sessions.contains(each.first); });
}

Futures::Counts Futures::counts() {
  std::lock_guard lock(mutex_);
  Counts counts;
  counts.cancelled = cancelled_;
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
