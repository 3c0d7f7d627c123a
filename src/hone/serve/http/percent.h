// Percent-encoding of names in a path.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace hone::serve {

// "org%2Fname" is org/name. None if a % is not followed by two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text);
// As one path component: everything but letters, digits and "-._~" is written as %XX.
std::string percent_encoded(std::string_view text);

}  // namespace hone::serve
