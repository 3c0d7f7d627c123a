// Suggests corrections for a misspelled path.
#pragma once
#include <filesystem>
#include <string>

namespace hone::hub {

// The sibling of `path` with the closest name: "models/nano" for "models/nanoo". Empty if none is close. Names that differ only
// in digits are different, like Qwen2.5-3B and Qwen2.5-7B.
std::filesystem::path nearest_path(const std::filesystem::path& path);

// "did you mean models/nano", or `otherwise`.
std::string spelling_hint(const std::filesystem::path& path, const std::string& otherwise);

}  // namespace hone::hub
