// Which replica serves a request: the one with the least work, except that requests of a group, which share a prompt, stay
// together. Knows every unfinished request and which replicas keep failing.
#pragma once
#include <unordered_map>
#include <vector>

#include "hone/engine/request.h"

namespace hone::engine {

class RequestRouter {
 public:
  // A request that was routed and has not finished.
  struct Live {
    size_t replica;
    int64_t sequences, prompt_tokens, pending_completions;
    std::string adapter;
    uint64_t group;
  };

  RequestRouter(size_t replicas, int64_t max_num_seqs)
      : loads_(replicas), failures_in_a_row_(replicas), max_num_seqs_(max_num_seqs) {}

  size_t replica_for(const Request& request) const;
  void add(RequestId id, const Request& request, size_t replica);
  const Live* find(RequestId id) const;      // null: finished, or unknown
  void finish(const RequestOutput& output);  // counts a final output; others are ignored
  const std::unordered_map<RequestId, Live>& live() const { return live_; }
  bool uses_adapter(const std::string& name) const;

  // A replica that fails several times in a row gets no more requests while another works.
  static constexpr int kMaxFailures = 3;
  void count_success(size_t replica) { failures_in_a_row_[replica] = 0; }
  void count_failure(size_t replica) { ++failures_in_a_row_[replica]; }
  bool works(size_t replica) const { return failures_in_a_row_[replica] < kMaxFailures; }

 private:
  struct Load {
    int64_t sequences = 0, prompt_tokens = 0;
    auto operator<=>(const Load&) const = default;
  };
  struct Group {
    size_t replica = 0;
    int64_t requests = 0;
  };
  size_t least_loaded() const;

  std::unordered_map<RequestId, Live> live_;
  std::unordered_map<uint64_t, Group> groups_;  // of live requests
  std::vector<Load> loads_;                     // of each replica
  std::vector<int> failures_in_a_row_;
  int64_t max_num_seqs_;
};

}  // namespace hone::engine
