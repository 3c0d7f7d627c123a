// Where a model or dataset named by id lies on this machine: the layouts of the Hugging Face and ModelScope caches.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hone::hub {

enum class Kind { model, dataset };

// The caches of this user, most specific setting first: HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME; MODELSCOPE_CACHE.
std::filesystem::path hugging_face_cache();
std::filesystem::path modelscope_cache();

// A folder for `id` ("Qwen/Qwen2.5-0.5B-Instruct") in one of the caches; nullopt when neither holds it.
std::optional<std::filesystem::path> find_in_caches(const std::string& id, Kind kind, const std::string& revision = "");

// A local path or a cached id. Throws UserError(usage) that says where it was looked for and what to do.
std::filesystem::path locate_model(const std::string& name, const std::string& revision = "");

}  // namespace hone::hub
