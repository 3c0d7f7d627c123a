// Which files a registry of datasets may name. One that a person wrote may name any; one that came from a hub, or with a model,
// is data, and names files of its own folder.
#pragma once
#include <filesystem>
#include <string>

namespace hone::data {

// `path` is what the entry `name` of `registry` leads to. Throws UserError where the registry may not name it.
void refuse_outside(const std::filesystem::path& registry, const std::string& name, const std::filesystem::path& path);

}  // namespace hone::data
