// Twinkle's preprocessors, by class name: convert rows of known datasets to conversations.
#pragma once
#include <string>

#include "hone/base/json.h"

namespace hone::tinker {

// The fields that the preprocessor adds to a row; its other columns stay. Throws RequestError for an unknown name, argument or
// column.
Json preprocessed(const std::string& name, const Json& init_args, const Json& row);

}  // namespace hone::tinker
