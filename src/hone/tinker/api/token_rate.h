// Token rate limits per tenant. Thread-safe.
#pragma once
#include <map>
#include <mutex>
#include <string>

#include "hone/tinker/state/tenant_limits.h"

namespace hone::tinker {

class TokenRate {
 public:
  explicit TokenRate(const AllTenantLimits& limits) : limits_(limits) {}
  // Takes tokens from the tenant's bucket, which holds at most a minute's worth; one request may overdraw it, and the next ones
  // wait. Throws ApiError(429) with the seconds to wait if it is empty.
  void spend(const std::string& tenant, int64_t tokens);
  // Gives back the tokens of a request that was not accepted after all.
  void refund(const std::string& tenant, int64_t tokens);

 private:
  struct Balance {
    double tokens = 0, at = 0;
  };
  const AllTenantLimits& limits_;
  std::mutex mutex_;
  std::map<std::string, Balance> balances_;
};

}  // namespace hone::tinker
