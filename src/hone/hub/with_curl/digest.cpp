#include "hone/hub/with_curl/digest.h"

#include <openssl/evp.h>

#include <memory>

#include "hone/base/error.h"
#include "hone/base/file.h"
#include "hone/base/strings/hex.h"

namespace hone::hub {
namespace {

std::string digest_of(const fs::path& file, const EVP_MD* algorithm, const std::string& prefix) {
  MappedFile mapped(file);
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  bool well = context && EVP_DigestInit_ex(context.get(), algorithm, nullptr) == 1 &&
              EVP_DigestUpdate(context.get(), prefix.data(), prefix.size()) == 1 &&
              EVP_DigestUpdate(context.get(), mapped.bytes().data(), mapped.bytes().size()) == 1 &&
              EVP_DigestFinal_ex(context.get(), bytes, &length) == 1;
  HONE_CHECK(well, "OpenSSL refused to hash {}", file.string());
  return hex_digits({reinterpret_cast<const char*>(bytes), length});
}

}  // namespace

std::string sha256_of(const fs::path& file) { return digest_of(file, EVP_sha256(), ""); }

std::string git_blob_of(const fs::path& file) {
  auto header = fmt::format("blob {}", fs::file_size(file));
  return digest_of(file, EVP_sha1(), header + '\0');
}

bool has_checksum(const fs::path& file, const RemoteFile& listed) {
  if (!listed.sha256.empty()) return sha256_of(file) == listed.sha256;
  return listed.blob.empty() || git_blob_of(file) == listed.blob;
}

}  // namespace hone::hub
