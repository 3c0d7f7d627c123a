// Percent-encoding in URLs.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace hone {

// "org%2Fname" is org/name. None if a % is not followed by two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text);
// Everything but letters, digits, "-._~" and the characters of `kept` is written as %XX.
std::string percent_encoded(std::string_view text, std::string_view kept = "");

}  // namespace hone
