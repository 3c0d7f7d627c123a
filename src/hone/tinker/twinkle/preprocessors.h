// Twinkle's preprocessors, by their class names: rows of known datasets become conversations.
#pragma once
#include <string>

#include "hone/base/json.h"

namespace hone::tinker {

// The fields that the preprocessor gives a row; its other columns stay. Throws RequestError for a name, an argument or a column
// that it does not know.
Json preprocessed(const std::string& name, const Json& init_args, const Json& row);

}  // namespace hone::tinker
