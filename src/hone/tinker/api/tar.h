// A tar archive of a few files.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace hone::tinker {

// The files of `folder` by these names, at the top of the archive.
std::string tar_of(const std::filesystem::path& folder, const std::vector<std::string>& names);

}  // namespace hone::tinker
