// Resolves the value of --model, --adapters or --dataset to a local folder: a path, a cached id, or a download.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "hone/hub/access.h"

namespace hone::hub {

// The folder of `id` ("Qwen/Qwen2.5-0.5B-Instruct") if a cache has all of it, the configured site's cache first. Opens no
// connection.
std::optional<std::filesystem::path> find_in_caches(const std::string& id, Kind kind, const std::string& revision = "");

// A local path, a cached id, or a download from the configured site; "id:subfolder" is a folder of a repository. Throws UserError
// listing the places searched and what to do.
std::filesystem::path locate_model(const std::string& name, const std::string& revision = "");
std::filesystem::path locate_adapter(const std::string& name, const std::string& revision = "");
std::filesystem::path locate_dataset(const std::string& id, Site site);

}  // namespace hone::hub
