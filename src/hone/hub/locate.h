// What a person wrote after --model, --adapters or --dataset, as a folder on this machine: a path, a cached id, or a download.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "hone/hub/access.h"

namespace hone::hub {

// A folder for `id` ("Qwen/Qwen2.5-0.5B-Instruct") that one of the caches holds whole, the configured site's first. Opens no
// connection.
std::optional<std::filesystem::path> find_in_caches(const std::string& id, Kind kind, const std::string& revision = "");

// A local path, a cached id, or fetched from the configured site; "id:subfolder" is a folder of a repository. Throws UserError
// that says where it was looked for and what to do.
std::filesystem::path locate_model(const std::string& name, const std::string& revision = "");
std::filesystem::path locate_adapter(const std::string& name, const std::string& revision = "");
std::filesystem::path locate_dataset(const std::string& id, Site site);

}  // namespace hone::hub
