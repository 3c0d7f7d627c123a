// Suggests what a path that does not exist may be a misspelling of.
#pragma once
#include <filesystem>
#include <string>

namespace hone::hub {

// The entry beside `path` whose name is nearest to its own: "models/nano" for "models/nanoo". Empty: none is near. Names that
// differ in digits alone are different things, as Qwen2.5-3B and Qwen2.5-7B are.
std::filesystem::path nearest_path(const std::filesystem::path& path);

// "did you mean models/nano", or `otherwise`.
std::string spelling_hint(const std::filesystem::path& path, const std::string& otherwise);

}  // namespace hone::hub
