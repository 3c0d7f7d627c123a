// How many tokens a minute each tenant has left. Any thread.
#pragma once
#include <map>
#include <mutex>
#include <string>

#include "hone/tinker/state/tenant_limits.h"

namespace hone::tinker {

class TokenRate {
 public:
  explicit TokenRate(const AllTenantLimits& limits) : limits_(limits) {}
  // Takes them from what the tenant has saved up, a minute's worth at most; one request may go beyond, and the next ones wait.
  // Throws ApiError(429) with the seconds to wait when nothing is left.
  void spend(const std::string& tenant, int64_t tokens);

 private:
  struct Balance {
    double tokens = 0, at = 0;
  };
  const AllTenantLimits& limits_;
  std::mutex mutex_;
  std::map<std::string, Balance> balances_;
};

}  // namespace hone::tinker
