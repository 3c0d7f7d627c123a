// Limits of a tenant, in addition to the server's.
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace hone::tinker {

struct TenantLimits {
  int64_t priority = 0;           // which waiting request is computed first; none waits forever
  int64_t max_rank = 0;           // 0 here and below: the server's own
  int64_t max_pending = 0;        // requests of each kind that are not done
  int64_t pending_bytes = 0;      // of training requests that are not done
  int64_t tokens_per_minute = 0;  // trained and sampled; 0: as many as there is time for
  int64_t checkpoint_bytes = 0;   // of checkpoints, unnamed sampler weights and snapshots
};

class AllTenantLimits {
 public:
  const TenantLimits& of(const std::string& tenant) const {
    static const TenantLimits kNone;
    auto found = limits_.find(tenant);
    return found == limits_.end() ? kNone : found->second;
  }
  TenantLimits& operator[](const std::string& tenant) { return limits_[tenant]; }

 private:
  std::map<std::string, TenantLimits> limits_;
};

}  // namespace hone::tinker
