#include "hone/tinker/api/keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "hone/base/file.h"
#include "hone/base/trimmed.h"
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
  std::istringstream lines(read_file(file));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = trimmed(line);
    if (line.empty() || line.starts_with('#')) continue;
    const auto blank = line.find_first_of(" \t");
    if (blank == line.npos)
      throw UserError(ExitCode::usage, fmt::format("{}, line {}: no key", file.string(), number), "a line is: tenant key");
    const auto tenant = line.substr(0, blank);
    const std::string key(trimmed(line.substr(blank)));
    if (!key.starts_with(kDigestMark)) {
      add(tenant, key);
    } else if (auto digest = bytes_of_hex(key.substr(kDigestMark.size()))) {
      add_digest(tenant, *digest);
    } else {
      throw UserError(ExitCode::usage, fmt::format("{}, line {}: {} is no SHA-256", file.string(), number, key),
                      "64 hexadecimal digits, as printf %s KEY | sha256sum prints them");
    }
  }
  if (entries_.empty()) throw UserError(ExitCode::usage, fmt::format("{} holds no key", file.string()), "a line is: tenant key");
}

std::optional<std::string> Keys::tenant_of(std::string_view key) const {
  const auto given = digest(key);
  const Entry* found = nullptr;
  for (const auto& entry : entries_)
    if (CRYPTO_memcmp(given.data(), entry.digest.data(), given.size()) == 0) found = &entry;
  return found ? std::optional(found->tenant) : std::nullopt;
}

std::string own_key(const std::filesystem::path& file) {
  if (std::filesystem::exists(file)) return trimmed(read_file(file));
  const auto key = serve::fresh_id("tml-");
  write_file_atomically(file, key + "\n");
  std::filesystem::permissions(file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  return key;
}

}  // namespace hone::tinker
