#include "hone/engine/data_parallel/request_router.h"

#include <algorithm>

namespace hone::engine {

size_t RequestRouter::least_loaded() const {
  size_t best = 0;
  for (size_t i = 1; i < loads_.size(); ++i)
    if (std::pair(!works(i), loads_[i]) < std::pair(!works(best), loads_[best])) best = i;
  return best;
}

// A group moves on when its replica is a full batch ahead of another: sharing the prefix would cost more than it saves.
size_t RequestRouter::replica_for(const Request& request) const {
  const auto least = least_loaded();
  const auto group = groups_.find(request.group);
  if (group == groups_.end()) return least;
  const auto replica = group->second.replica;
  const bool is_far_ahead = loads_[replica].sequences > loads_[least].sequences + max_num_seqs_;
  return is_far_ahead || !works(replica) ? least : replica;
}

void RequestRouter::add(RequestId id, const Request& request, size_t replica) {
  const auto& sampling = request.sampling;
  Live live{.replica = replica,
            .sequences = sampling.num_beams,
            .prompt_tokens = static_cast<int64_t>(request.prompt.size()),
            .pending_completions = sampling.num_return_sequences,
            .adapter = request.adapter,
            .group = request.group};
  if (request.group) groups_[request.group] = {replica, groups_[request.group].requests + 1};
  loads_[replica].sequences += live.sequences;
  loads_[replica].prompt_tokens += live.prompt_tokens;
  live_.emplace(id, std::move(live));
}

const RequestRouter::Live* RequestRouter::find(RequestId id) const {
  const auto found = live_.find(id);
  return found == live_.end() ? nullptr : &found->second;
}

void RequestRouter::finish(const RequestOutput& output) {
  const auto found = live_.find(output.id);
  if (found == live_.end() || output.finish == FinishReason::none) return;
  auto& request = found->second;
  if (--request.pending_completions > 0) return;
  loads_[request.replica].sequences -= request.sequences;
  loads_[request.replica].prompt_tokens -= request.prompt_tokens;
  if (const auto group = groups_.find(request.group); group != groups_.end() && --group->second.requests == 0)
    groups_.erase(group);
  live_.erase(found);
}

bool RequestRouter::uses_adapter(const std::string& name) const {
  return std::ranges::any_of(live_, [&](const auto& each) { return each.second.adapter == name; });
}

}  // namespace hone::engine
