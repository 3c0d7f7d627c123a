// Python's regular expressions, as far as an automaton can represent them: no look-around, no back-references, no flags.
#pragma once
#include <string_view>

#include "hone/base/error.h"
#include "hone/engine/constraints/pattern.h"

namespace hone::engine {

constexpr size_t kLongestExpression = 64 * 1024;  // in bytes

// The pattern of fully matching texts. \d, \w, \s are restricted to ASCII, a subset of Python's meaning.
Result<Pattern> parse_regex(std::string_view expression);

// The pattern of texts that contain a match, as "pattern" of a JSON schema requires.
Result<Pattern> parse_regex_anywhere(std::string_view expression);

}  // namespace hone::engine
