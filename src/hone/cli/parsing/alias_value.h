// Values of options that are given under another front end's name.
#pragma once
#include "hone/cli/option.h"

namespace hone::cli {

// What the value means for the option itself: "all" → "all-linear", 5 → "5GB". `commas` splits a list's single string.
Json translate_value(const Alias& alias, const Json& given, bool commas);

}  // namespace hone::cli
