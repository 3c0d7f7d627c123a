// Who may come in: API keys, each of a tenant. Kept as digests; every key takes the same time, right or wrong.
#pragma once
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hone/serve/http/message.h"
#include "hone/tinker/state/tenant_limits.h"

namespace hone::tinker {

class Keys {
 public:
  // Throws UserError(usage) for a key that is too short to be one, or that two tenants share.
  void add(const std::string& tenant, const std::string& key);
  // Lines of "tenant key" or "tenant sha256:DIGEST", with limits behind them: priority=1 max_rank=32 max_pending=100
  // tokens_per_minute=100000 checkpoint_gb=5. Empty lines and those that begin with # are passed over.
  void add_file(const std::filesystem::path& file);
  bool empty() const { return entries_.empty(); }
  std::optional<std::string> tenant_of(std::string_view key) const;
  const AllTenantLimits& limits() const { return limits_; }

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest digest(std::string_view text);
  void add_digest(const std::string& tenant, const Digest& digest);
  struct Entry {
    Digest digest;
    std::string tenant;
  };
  std::vector<Entry> entries_;
  AllTenantLimits limits_;
};

// X-API-Key, or the token of a bearer; "" where there is neither.
std::string_view key_of(const serve::HttpRequest& request);

// The key of a server that was given none: drawn once, and kept in a file that only its owner reads.
std::string own_key(const std::filesystem::path& file);

}  // namespace hone::tinker
