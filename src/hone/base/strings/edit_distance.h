// How far apart two spellings are, for "did you mean".
#pragma once
#include <cstddef>
#include <span>
#include <string_view>

namespace hone {

// Insertions, deletions, substitutions and swaps of neighbors each cost one.
size_t edit_distance(std::string_view a, std::string_view b);

// The largest distance at which a word of `length` letters counts as a misspelling. In a short word two mistakes leave nothing.
size_t misspelling_limit(size_t length);

// The nearest of `words` within that limit, or "".
std::string_view nearest_word(std::string_view typed, std::span<const std::string_view> words);

}  // namespace hone
