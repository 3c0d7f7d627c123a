// The files that a dataset registry may refer to. A user's registry may name any file; one that came from a hub or with a model
// is untrusted and may name only files of its own folder.
#pragma once
#include <filesystem>
#include <string>

namespace hone::data {

// `path` is the target of entry `name` in `registry`. Throws UserError if the registry may not refer to it.
void refuse_outside(const std::filesystem::path& registry, const std::string& name, const std::filesystem::path& path);

}  // namespace hone::data
