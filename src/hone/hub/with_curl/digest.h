// Checksums of files: SHA-256, and git's SHA-1 of a blob.
#pragma once
#include <filesystem>
#include <string>

#include "hone/hub/listing.h"

namespace hone::hub {

std::string sha256_of(const std::filesystem::path& file);
std::string git_blob_of(const std::filesystem::path& file);

// Whether a file's content is what the hub listed; true when it listed no checksum.
bool has_checksum(const std::filesystem::path& file, const RemoteFile& listed);

}  // namespace hone::hub
