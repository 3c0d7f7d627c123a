#include "hone/tinker/api/keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "hone/base/file.h"
#include "hone/base/strings/trimmed.h"
#include "hone/serve/http/head.h"

namespace hone::tinker {
namespace {

constexpr size_t kShortestKey = 12;
constexpr std::string_view kDigestMark = "sha256:";

std::optional<std::array<unsigned char, 32>> bytes_of_hex(std::string_view text) {
  std::array<unsigned char, 32> bytes;
  if (text.size() != 2 * bytes.size()) return std::nullopt;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char* pair = text.data() + 2 * i;
    auto [end, status] = std::from_chars(pair, pair + 2, bytes[i], 16);
    if (status != std::errc() || end != pair + 2) return std::nullopt;
  }
  return bytes;
}

// "name=number".
bool set_limit(std::string_view word, TenantLimits& limits) {
  const auto equals = word.find('=');
  if (equals == word.npos) return false;
  const auto name = word.substr(0, equals), digits = word.substr(equals + 1);
  double value = 0;
  auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || status != std::errc() || end != digits.data() + digits.size() || !(value >= 0 && value < 1e12))
    return false;
  if (name == "checkpoint_gb") return limits.checkpoint_bytes = static_cast<int64_t>(value * 1e9), true;
  if (name == "pending_gb") return limits.pending_bytes = static_cast<int64_t>(value * 1e9), true;
  for (const auto& [known, field] :
       {std::pair("priority", &TenantLimits::priority), std::pair("max_rank", &TenantLimits::max_rank),
        std::pair("max_pending", &TenantLimits::max_pending), std::pair("tokens_per_minute", &TenantLimits::tokens_per_minute)})
    if (name == known) return limits.*field = static_cast<int64_t>(value), true;
  return false;
}

}  // namespace

Keys::Digest Keys::digest(std::string_view text) {
  Digest out;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data());
  return out;
}

void Keys::add(const std::string& tenant, const std::string& key) {
  if (key.size() < kShortestKey || !key.starts_with("tml-"))
    throw UserError(ExitCode::usage, fmt::format("the key of \"{}\" is not one the SDK accepts", tenant),
                    fmt::format("a key begins with tml- and has at least {} characters", kShortestKey));
  add_digest(tenant, digest(key));
}

void Keys::add_digest(const std::string& tenant, const Digest& digest) {
  if (std::ranges::any_of(entries_, [&](const Entry& entry) { return entry.digest == digest; }))
    throw UserError(ExitCode::usage, fmt::format("the key of \"{}\" is in use already", tenant),
                    "give each tenant keys of its own");
  entries_.push_back({digest, tenant});
}

void Keys::add_file(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file))
    throw UserError(ExitCode::bad_data, fmt::format("{}: no such file of keys", file.string()),
                    "write one line for each tenant: its name and a key that begins with tml-");
  std::istringstream lines(read_file(file));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = trimmed(line);
    if (line.empty() || line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string tenant, key;
    if (!(words >> tenant >> key))
      throw UserError(ExitCode::usage, fmt::format("{}, line {}: no key", file.string(), number), "a line is: tenant key");
    for (std::string word; words >> word;)
      if (!set_limit(word, limits_[tenant]))
        throw UserError(
            ExitCode::usage, fmt::format("{}, line {}: {} is not a limit", file.string(), number, word),
            "priority=, max_rank=, max_pending=, pending_gb=, tokens_per_minute= and checkpoint_gb= with a number from 0 on");
    if (!key.starts_with(kDigestMark)) {
      add(tenant, key);
    } else if (auto digest = bytes_of_hex(key.substr(kDigestMark.size()))) {
      add_digest(tenant, *digest);
    } else {
      throw UserError(ExitCode::usage, fmt::format("{}, line {}: {} is not a SHA-256", file.string(), number, key),
                      "64 hexadecimal digits, as printf %s KEY | sha256sum prints them");
    }
  }
  if (entries_.empty())
    throw UserError(ExitCode::usage, fmt::format("{} contains no key", file.string()), "a line is: tenant key");
}

std::optional<std::string> Keys::tenant_of(std::string_view key) const {
  const auto given = digest(key);
  const Entry* found = nullptr;
  for (const auto& entry : entries_)
    if (CRYPTO_memcmp(given.data(), entry.digest.data(), given.size()) == 0) found = &entry;
  return found ? std::optional(found->tenant) : std::nullopt;
}

std::string_view key_of(const serve::HttpRequest& request) {
  constexpr std::string_view kBearer = "Bearer ";
  auto key = request.header("x-api-key");
  auto authorization = request.header("authorization");
  return !key.empty() || !authorization.starts_with(kBearer) ? key : authorization.substr(kBearer.size());
}

std::string own_key(const std::filesystem::path& file) {
  if (std::filesystem::exists(file)) return trimmed(read_file(file));
  const auto key = serve::fresh_id("tml-");
  write_file_atomically(file, key + "\n");
  std::filesystem::permissions(file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  return key;
}

}  // namespace hone::tinker
