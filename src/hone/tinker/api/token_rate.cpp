#include "hone/tinker/api/token_rate.h"

#include <algorithm>
#include <cmath>

#include "hone/serve/http/api_error.h"
#include "hone/tinker/state/store.h"

namespace hone::tinker {

void TokenRate::spend(const std::string& tenant, int64_t tokens) {
  constexpr double kMinute = 60;
  const auto most = static_cast<double>(limits_.of(tenant).tokens_per_minute);
  if (most == 0) return;
  const double now = unix_seconds();
  std::lock_guard lock(mutex_);
  auto [found, fresh] = balances_.try_emplace(tenant, Balance{most, now});
  auto& balance = found->second;
  balance.tokens = std::min(most, balance.tokens + (now - balance.at) / kMinute * most);
  balance.at = now;
  if (balance.tokens <= 0) {
    serve::ApiError full(429, fmt::format("your {:.0f} tokens a minute are spent; try again", most), "", "rate_limit_exceeded");
    full.retry_after = static_cast<int>(std::ceil(std::min(kMinute, (1 - balance.tokens) / most * kMinute)));
    throw full;
  }
  balance.tokens -= static_cast<double>(tokens);
}

void TokenRate::refund(const std::string& tenant, int64_t tokens) {
  std::lock_guard lock(mutex_);
  if (auto found = balances_.find(tenant); found != balances_.end()) found->second.tokens += static_cast<double>(tokens);
}

}  // namespace hone::tinker
