// Names in a path, as clients write them there.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace hone::serve {

// "org%2Fname" is org/name. None when a % has no two hexadecimal digits behind it.
std::optional<std::string> percent_decoded(std::string_view text);
// As one part of a path: everything but letters, digits and "-._~" is written as %XX.
std::string percent_encoded(std::string_view text);

}  // namespace hone::serve
