// What a row or a request names by an http or https address. Both come from strangers: the size, the time and where it may come
// from are limited. Two builds do it: with libcurl, and without, which only explains.
#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "hone/base/error.h"

namespace hone::hub {

struct FetchLimits {
  size_t most_bytes = size_t{1024} << 20;
  std::chrono::seconds whole_time{20};
  bool private_addresses = false;       // of this machine and its network
  std::vector<std::string> hosts = {};  // these alone, behind redirects too; empty: any
};

// The file, kept for the next time. Through no proxy; redirects are followed within the same limits. Errors say what the server
// or the limit is.
Result<std::filesystem::path> fetch_url(const std::string& url, const FetchLimits& limits, const std::filesystem::path& folder);
// The same without keeping it.
Result<std::string> fetch_bytes(const std::string& url, const FetchLimits& limits);

}  // namespace hone::hub
