// Fetches media that a row or request refers to by URL. Both are untrusted: size, time and allowed hosts are limited. Two
// implementations: with libcurl, and without, which only reports an error.
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "hone/base/error.h"

namespace hone::hub {

struct FetchLimits {
  size_t most_bytes = size_t{1024} << 20;
  std::chrono::seconds total_timeout{20};  // redirects and a second try included
  bool private_addresses = false;          // of this machine and its network
  std::vector<std::string> hosts = {};     // these alone, also after redirects; empty: any
};

// The bytes of a URL; `is_cancelled` is polled while they arrive, and true ends the download.
using FetchBytes = std::function<Result<std::string>(const std::string& url, const std::function<bool()>& is_cancelled)>;

// The file, cached for later. Without a proxy; redirects are subject to the same limits. Errors name the server or the limit.
Result<std::filesystem::path> fetch_url(const std::string& url, const FetchLimits& limits, const std::filesystem::path& folder);
// The same without caching.
Result<std::string> fetch_bytes(const std::string& url, const FetchLimits& limits,
                                const std::function<bool()>& is_cancelled = {});

}  // namespace hone::hub
