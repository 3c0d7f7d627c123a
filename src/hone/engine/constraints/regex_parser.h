// Python's regular expressions, as far as an automaton can follow them: no look-around, no back-references, no flags.
#pragma once
#include <string_view>

#include "hone/base/error.h"
#include "hone/engine/constraints/pattern.h"

namespace hone::engine {

constexpr size_t kLongestExpression = 64 * 1024;  // in bytes

// The pattern of texts that match as one. \d, \w, \s mean ASCII, a part of what they match in Python.
Result<Pattern> parse_regex(std::string_view expression);

// The pattern of texts that contain a match, as "pattern" of a JSON schema requires.
Result<Pattern> parse_regex_anywhere(std::string_view expression);

}  // namespace hone::engine
