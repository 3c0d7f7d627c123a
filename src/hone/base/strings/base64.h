// Base64 (RFC 4648).
#pragma once
#include <string>
#include <string_view>

#include "hone/base/error.h"

namespace hone {

// With padding, in one line.
std::string encode_base64(std::string_view bytes);

// Either alphabet, with or without padding; an error for any other character.
Result<std::string> decode_base64(std::string_view text);

}  // namespace hone
