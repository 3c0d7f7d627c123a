// Authentication: API keys, each belonging to a tenant. Stored as digests and compared in constant time.
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
  // Throws UserError(usage) for a key that is too short, or that two tenants share.
  void add(const std::string& tenant, const std::string& key);
  // Lines of "tenant key" or "tenant sha256:DIGEST", followed by limits: priority=1 max_rank=32 max_pending=100
  // pending_gb=1 tokens_per_minute=100000 checkpoint_gb=5. Empty lines and lines that start with # are skipped.
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

// X-API-Key, or a bearer token; "" if there is neither.
std::string_view key_of(const serve::HttpRequest& request);

// The key of a server started without one: generated once, and stored in a file that only its owner can read.
std::string own_key(const std::filesystem::path& file);

}  // namespace hone::tinker
